# Oban is woken through the hub; its queries and its NOTIFY go through the repo as before.
#
#     config :my_app, Oban, repo: MyApp.Repo, notifier: MyApp.HubNotifier
#     config :my_app, MyApp.HubNotifier,
#       socket_dir: "/run/pgwake/shop", port: 5432, database: "shop", username: "app"
#
# Written from the sources of Oban 2.18; pgwake's tests do not run it, but they send what it sends. Postgrex connects and listens
# again by itself after a gap, and knows no second host: while there is no hub, Oban's polling (the stager's local mode) finds
# the jobs.
defmodule MyApp.HubNotifier do
  @behaviour Oban.Notifier

  alias Oban.Notifiers.Postgres
  alias Postgrex.SimpleConnection

  @impl Oban.Notifier
  def start_link(opts) do
    state = struct!(Postgres, conf: Keyword.fetch!(opts, :conf))

    connection =
      :my_app
      |> Application.fetch_env!(__MODULE__)
      |> Keyword.merge(name: Keyword.fetch!(opts, :name), auto_reconnect: true, sync_connect: false)

    SimpleConnection.start_link(Postgres, state, connection)
  end

  @impl Oban.Notifier
  defdelegate listen(server, channels), to: Postgres

  @impl Oban.Notifier
  defdelegate unlisten(server, channels), to: Postgres

  @impl Oban.Notifier
  defdelegate notify(server, channel, payload), to: Postgres
end

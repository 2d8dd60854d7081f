# frozen_string_literal: true

# config/initializers/pgwake_action_cable.rb: Action Cable's `postgresql` adapter LISTENs through the hub. Broadcasts
# (NOTIFY) go on over Active Record's connections.
#
#   CABLE_LISTEN_DATABASE="host=/run/pgwake/shop,db.internal port=5432,5432 dbname=shop user=app"
#
# Run by pgwake's tests with the adapter of Action Cable 6.1, without a Rails application. When its connection ends, Action
# Cable's listening thread raises and the process ends: at a gap, unless somebody subscribes to pgwake.gap as below, and when
# the hub is restarted. It does the same when it listens at PostgreSQL and that is restarted.
require 'pg'
require 'action_cable/subscription_adapter/postgresql'

module PgwakeActionCable
  GAP = 'pgwake.gap'

  def with_subscriptions_connection
    connection = PG.connect(ENV.fetch('CABLE_LISTEN_DATABASE'))
    connection.exec("SET application_name = #{connection.escape_identifier(identifier)}")
    yield connection
  ensure
    connection&.close
  end
end

ActionCable::SubscriptionAdapter::PostgreSQL.prepend(PgwakeActionCable)

# At a gap broadcasts may have been missed: browsers connect again and load what they show. Call it once the server runs; it
# needs a cable.yml without channel_prefix, which would change the name.
#
#   ActionCable.server.pubsub.subscribe(PgwakeActionCable::GAP, lambda do |_|
#     ActionCable.server.connections.each(&:close)
#   end)

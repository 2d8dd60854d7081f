# frozen_string_literal: true

require 'pgwake/sse'
require_relative 'messages'

messages = Messages.new(ENV.fetch('DATABASE'))
page = File.read(File.join(__dir__, '../sse/page.html'))

# The stream that a request names. A real application asks here who may read it: nil answers 403.
stream_of = lambda do |env|
  name = Rack::Utils.parse_query(env['QUERY_STRING'])['stream']
  name if name.is_a?(String) && name.match?(/\A[a-z0-9_]{1,49}\z/)
end

# The listener's own settings come from the environment: PGWAKE_SOCKET, PGWAKE_DATABASE, ...
events = Pgwake.sse(rows: messages, name: 'sse-puma', heartbeat: ENV.fetch('HEARTBEAT', 15).to_f,
                    write_timeout: ENV.fetch('WRITE_TIMEOUT', 30).to_f) do |env|
  (stream = stream_of[env]) && Messages.channel_of(stream)
end

# add(stream, text) or the like, for the body of a POST.
publish = lambda do |action|
  lambda do |env|
    stream = stream_of[env]
    next [400, {}, ["which stream?\n"]] unless env['REQUEST_METHOD'] == 'POST' && stream

    messages.public_send(action, stream, env['rack.input'].read(7000).to_s.force_encoding('UTF-8').scrub.delete("\0"))
    [204, {}, []]
  rescue PG::Error => e
    [503, {}, [e.message]]
  end
end

# Who serves: for those who look at a cluster.
use(Class.new do
  def initialize(app)
    @app = app
  end

  def call(env)
    status, headers, body = @app.call(env)
    [status, { **headers, 'x-worker' => Process.pid.to_s }, body]
  end
end)

map('/events') { run events }
map('/durable') { run publish[:add] }
map('/ephemeral') { run publish[:notify] }
map('/') { run ->(env) { env['PATH_INFO'] == '/' ? [200, { 'content-type' => 'text/html' }, [page]] : [404, {}, []] } }

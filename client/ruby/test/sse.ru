# frozen_string_literal: true

# What sse_test.rb runs in each server: the same streams with settings for each test.
require 'json'
require 'pgwake/sse'

host = JSON.parse(ENV.fetch('SSE_OPTIONS'), symbolize_names: true)
kinds = {
  plain: {},
  beating: { heartbeat: 0.2 },
  narrow: { max_unsent: 64 * 1024 },
  impatient: { write_timeout: 1, max_unsent: 64 << 20 },
  brief: { linger: 0 },
  lonely: { max_browsers: 1 },
  nowhere: { socket: '/nonexistent/pgwake.sock', database: 'host=/nonexistent', subscribe_timeout: 0.3 }
}
kinds.each do |kind, settings|
  streams = Pgwake.sse(name: "sse #{kind}", **host, application_name: "own #{kind}", **settings) do |env|
    Rack::Utils.parse_query(env['QUERY_STRING'])['channel']
  end
  map("/#{kind}") { run streams }
end
map('/pid') { run ->(_) { [200, { 'content-type' => 'text/plain' }, [Process.pid.to_s]] } }

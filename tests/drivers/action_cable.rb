# Action Cable's adapter with its recipe, in a process that is started again when it has ended, as a supervisor would.
if ARGV[0] != '--once'
  loop do
    system('ruby', __FILE__, '--once', ARGV[0], err: File::NULL)
    sleep 0.02
  end
end

require 'logger'
require 'action_cable'
ENV['CABLE_LISTEN_DATABASE'] = ARGV[1]
require_relative '../../examples/drivers/action_cable'
$stdout.sync = true

# As much of a server as the adapter knows. Its own event loop is a pool of threads, in which order is lost.
Inline = Class.new { def post(task = nil, &block) = (task || block).call }
Server = Struct.new(:mutex, :event_loop, :config, :logger)
config = Struct.new(:cable).new({ 'adapter' => 'postgresql', 'id' => 'cable' })
adapter = ActionCable::SubscriptionAdapter::PostgreSQL.new(
  Server.new(Monitor.new, Inline.new, config, Logger.new(File::NULL))
)
ready = -> { puts 'ready' }
adapter.subscribe(PgwakeActionCable::GAP, ->(_cause) { puts "lost\nready" })
adapter.subscribe('drivers', ->(payload) { puts "got #{payload}" }, ready)
sleep

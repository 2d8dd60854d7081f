# frozen_string_literal: true

begin
  require 'active_record'
  require 'action_cable'
  require 'pg'
rescue LoadError
  puts 'skipped: ruby-actioncable or ruby-activerecord is not installed -- adapter: pgwake'
  exit 77
end
require 'logger'
require 'stringio'
require_relative 'support'

# Rails' own Action Cable server with `adapter: pgwake`, and beside it one with Rails' own adapter.
class CableTest < Minitest::Test
  include Helpers

  ARGUMENTS = ['--allow', "uid:#{Process.uid} *"].freeze

  def setup
    @host = Rig::Host.new(*ARGUMENTS)
    database = @host.options[:database].scan(/(\w+)=(\S+)/).to_h
    ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: database['host'], port: database['port'],
                                            username: database['user'], database: database['dbname'], pool: 20)
    @log = StringIO.new
    @servers = []
    @heard = Queue.new
  end

  def teardown
    @servers.each { |server| server.pubsub.shutdown }
    ActiveRecord::Base.remove_connection
    @host.close
  end

  # One process of Rails, as far as Action Cable is concerned.
  def server(adapter = 'pgwake', **cable)
    config = ActionCable::Server::Configuration.new
    own = adapter == 'pgwake' ? @host.options : {}
    config.cable = { adapter: adapter, **own, **cable }.with_indifferent_access
    config.logger = Logger.new(@log)
    @servers << (made = ActionCable::Server::Base.new(config: config))
    made
  end

  # Returns the callback once the subscription is confirmed.
  def subscribe(server, channel, into: @heard)
    confirmed = Queue.new
    callback = ->(message) { into << message }
    server.pubsub.subscribe(channel, callback, -> { confirmed << true })
    assert(eventually { !confirmed.empty? }, "no confirmation of #{channel}: #{@log.string}")
    callback
  end

  def next_of(queue = @heard)
    assert(eventually { !queue.empty? }, "nothing came: #{@log.string}")
    JSON.parse(queue.pop)
  end

  def listener_of(server)
    server.pubsub.send(:listener).instance_variable_get(:@listener)
  end

  # Broadcasts until one is heard: what was sent before the gap may be lost, and the log says so.
  def heard_again(server, channel)
    n = 0
    assert(eventually { server.broadcast(channel, "again #{n += 1}") && !@heard.empty? }, "deaf: #{@log.string}")
    assert_match(/again/, next_of)
  end

  def test_messages
    rails = server
    subscribe(rails, 'chat')
    texts = (0..99).map { |i| i.to_s * 50 } + ["caf\u00e9 \u{1f418} '\\"]
    texts.each { |text| rails.broadcast('chat', text) }
    # In any order: Rails calls its subscribers in several threads.
    assert_equal(texts.sort, texts.map { next_of }.sort)
    assert_equal([:hub, 0, 0], [listener_of(rails).state.source, @host.census('own-%'), @host.census('ActionCable-%')])
  end

  # A fleet may change over one process at a time: names, prefixes and hashes are Rails' own.
  def test_a_mixed_fleet
    ours = server(channel_prefix: 'app')
    rails = server('postgresql', channel_prefix: 'app')
    here = Queue.new
    there = Queue.new
    names = ['chat', 'chat:1 "x"', 'a' * 63, 'a' * 64, 'long' * 100]
    names.each do |name|
      subscribe(ours, name, into: here)
      subscribe(rails, name, into: there)
      { ours => 'ours', rails => 'rails' }.each do |from, text|
        from.broadcast(name, text)
        assert_equal([text, text], [next_of(here), next_of(there)], name)
      end
    end
    # Rails' own adapter has a connection for each process; ours has none.
    assert_equal(1, @host.census('ActionCable-%'))
  end

  # Longer than PostgreSQL's names by bytes, not by characters: it cuts them in NOTIFY.
  def test_names_are_counted_in_bytes
    rails = server
    subscribe(rails, "\u00e9" * 40)
    rails.broadcast("\u00e9" * 40, 'x')
    assert_equal('x', next_of)
  end

  def test_many_channels
    rails = server
    confirmed = Queue.new
    (1..2000).each { |i| rails.pubsub.subscribe("c#{i}", ->(m) { @heard << m }, -> { confirmed << i }) }
    assert(eventually { confirmed.size == 2000 }, "#{confirmed.size} confirmed")
    [1, 999, 2000].each do |i|
      rails.broadcast("c#{i}", i)
      assert_equal(i, next_of)
    end
  end

  # Both subscribers of a channel are told only when PostgreSQL listens, the second one as well.
  def test_confirmed_only_when_active
    @host.kill
    rails = server(policy: 'listener', database: 'host=/nonexistent')
    confirmed = Queue.new
    2.times { |i| rails.pubsub.subscribe('chat', ->(m) { @heard << m }, -> { confirmed << i }) }
    assert(eventually { listener_of(rails).state.channels == 1 })
    sleep(0.3) # a confirmation that must not come has no condition to wait for
    assert_equal(0, confirmed.size)
    @host.start
    assert(eventually { confirmed.size == 2 })
    rails.broadcast('chat', 'x')
    assert_equal(%w[x x], Array.new(2) { next_of })
  end

  def test_subscribed_and_unsubscribed_at_once
    rails = server
    stays = ->(m) { @heard << m }
    100.times do
      gone = ->(_) { @heard << '"gone"' }
      rails.pubsub.subscribe('chat', gone)
      rails.pubsub.unsubscribe('chat', gone)
    end
    confirmed = Queue.new
    rails.pubsub.subscribe('chat', stays, -> { confirmed << true })
    assert(eventually { !confirmed.empty? })
    rails.broadcast('chat', 'x')
    assert_equal('x', next_of)
    rails.pubsub.unsubscribe('chat', stays)
    assert(eventually { listener_of(rails).channels.empty? })
  end

  # The hub's session is lost: logged, and the process goes on.
  def test_the_session_is_terminated
    rails = server
    subscribe(rails, 'chat')
    assert_operator(@host.terminate('pgwake%'), :>=, 1)
    assert(eventually { @log.string.include?('(reconnect)') }, @log.string)
    heard_again(rails, 'chat')
  end

  def test_the_hub_is_killed
    rails = server
    subscribe(rails, 'chat')
    @host.kill
    assert(eventually { @log.string.include?('(hub_lost)') }, @log.string)
    heard_again(rails, 'chat')
    assert_equal(:own, listener_of(rails).state.source)
    @host.start
    assert(eventually { listener_of(rails).state.source == :hub })
    rails.broadcast('chat', 'back')
    # More of those that were sent until one was heard may come first, and Rails calls its subscribers in several threads.
    assert(eventually { !@heard.empty? && next_of == 'back' })
  end

  # A planned restart loses nothing.
  def test_the_hub_restarts
    rails = server
    subscribe(rails, 'chat')
    @host.stop
    rails.broadcast('chat', 'meanwhile')
    assert_equal('meanwhile', next_of)
    @host.start
    assert(eventually { listener_of(rails).state.source == :hub })
    rails.broadcast('chat', 'back')
    assert_equal('back', next_of)
    refute_match(/missed/, @log.string)
  end

  # A bad name is logged and harms no other.
  def test_refusals
    @host.close
    @host = Rig::Host.new('--allow', "uid:#{Process.uid} chat*")
    rails = server
    ["nul\0", 'forbidden', ''].each { |name| rails.pubsub.subscribe(name, ->(_) {}, -> { @heard << '"wrong"' }) }
    subscribe(rails, 'chat')
    assert_match(/forbidden/, @log.string)
    assert_match(/NUL/, @log.string)
    assert_empty(@heard)
  end

  # Where cable.yml names no database, the fallback is the application's own.
  def test_the_fallback_is_the_applications_database
    rails = server(socket: '/nonexistent/s', database: nil)
    subscribe(rails, 'chat')
    rails.broadcast('chat', 'x')
    assert_equal('x', next_of)
    assert_equal(:own, listener_of(rails).state.source)
  end

  def test_after_a_fork
    rails = server
    subscribe(rails, 'chat')
    ours = Process.pid
    code = in_child do
      ActiveRecord::Base.establish_connection(ActiveRecord::Base.connection_db_config)
      subscribe(rails, 'child')
      @host = nil
      rails.pubsub.broadcast('child', '"x"')
      next_of == 'x' && Process.pid != ours ? 0 : 1
    end
    assert_equal(0, code)
    rails.broadcast('chat', 'parent')
    assert_equal('parent', next_of)
  end

  def test_shutdown
    rails = server
    callback = subscribe(rails, 'chat')
    before = Thread.list.size
    pubsub = rails.pubsub
    2.times { rails.restart }
    assert(eventually { Thread.list.size < before })
    pubsub.unsubscribe('chat', callback) # of a connection that ends after it
    subscribe(rails, 'chat')
    rails.broadcast('chat', 'x')
    assert_equal('x', next_of)
  end

  def test_without_the_library
    code = "require 'action_cable'; require 'active_record'; require 'logger'; " \
           'c = ActionCable::Server::Configuration.new; c.cable = { "adapter" => "pgwake", database: "x" }; ' \
           'c.logger = Logger.new($stdout); s = ActionCable::Server::Base.new(config: c); ' \
           's.pubsub.subscribe("c", 1) rescue puts($!.class)'
    said = IO.popen({ 'LIBPGWAKE' => '/nonexistent.so' }, [RbConfig.ruby, '-Ilib', '-e', code], &:read)
    assert_match(/cannot listen: libpgwake cannot be loaded/, said)
    assert_match(/LibraryMissing/, said)
  end
end

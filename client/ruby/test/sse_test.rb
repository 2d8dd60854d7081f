# frozen_string_literal: true

require 'fileutils'
require 'open3'
require 'tempfile'
require_relative 'sse_support'

# Pgwake::SSE in Puma; SSE_SERVER says how that is started.
class SSETest < Minitest::Test
  include Helpers

  KIND = ENV.fetch('SSE_SERVER', 'puma-preload')
  unless ENV['PATH'].split(':').any? { |folder| File.executable?(File.join(folder, 'puma')) }
    puts 'skipped: puma is not installed -- Pgwake::SSE'
    exit 77
  end
  ALLOWED = ['--allow', "uid:#{Process.uid} c*"].freeze
  WORKERS = Server::WORKERS[KIND]

  class << self
    # For all tests; what they stop they start again.
    def host
      @host ||= Rig::Host.new(*ALLOWED)
    end

    def server
      @server ||= Server.new(KIND, host.options).tap { |s| Minitest.after_run { s.close } }
    end
  end

  def host
    self.class.host
  end

  def server
    self.class.server
  end

  def setup
    @browsers = []
    @channel = "c_#{name}"[0, 60]
  end

  def teardown
    @browsers.each(&:close)
  end

  def browser(kind = 'plain', *channels, on: server, **how)
    Browser.new(on.port, "/#{kind}", channels.empty? ? [@channel] : channels, **how).tap { |b| @browsers << b }
  end

  def browsers(count, ...)
    Array.new(count) { browser(...) }
  end

  def wake(payload = nil, channel = @channel)
    ['wake', payload ? { 'channel' => channel, 'payload' => payload } : { 'channel' => channel }]
  end

  # What the hub knows of the streams of one kind, of all processes.
  def in_hub(kind = 'plain')
    said, = Open3.capture2(ENV.fetch('PGWAKED'), 'status', '--json', '--socket', host.options[:socket])
    JSON.parse(said)['workers'].select { |c| c['name'] == "sse #{kind}" }
  end

  # Notifies until a wake comes, and says what came before it.
  def heard_again(browser)
    before = []
    done = eventually(30) do
      host.notify(@channel, 'again')
      while (event = browser.event(0.1))
        flunk("the stream has ended: #{server.log}") if event == :end
        break true if event[0] == 'wake' && event[1]['payload'] == 'again'

        before << event
      end
    end
    assert(done, "deaf: #{server.log}")
    before
  end

  def test_wakes_reach_all_browsers
    all = browsers(12)
    assert_equal([200, 'text/event-stream', 'no-cache'],
                 [all[0].status, *all[0].headers.values_at('content-type', 'cache-control')])
    texts = (0..99).map { |i| "#{i} caf\u00e9\n\u{1f418} </script>" }
    texts.each { |text| host.notify(@channel, text) }
    host.notify(@channel)
    all.each do |b|
      assert_equal([*texts.map { |text| wake(text) }, wake], b.events(101))
      assert_includes(1000..3000, b.retry_after)
    end
    # One listener for each process that has browsers, and none of them has a connection of its own.
    assert_includes(1..WORKERS, in_hub.size)
    assert_equal(0, host.census('own plain'))
  end

  # Each browser's own channels, and no others'.
  def test_several_channels
    a, b = browsers(2).zip(%w[1 2]).map { |_, i| browser('plain', "#{@channel}.both", "#{@channel}.#{i}") }
    %w[1 2 both].each { |i| host.notify("#{@channel}.#{i}", 'x') }
    assert_equal(%w[1 both].map { |i| wake('x', "#{@channel}.#{i}") }, a.events(2))
    assert_equal(%w[2 both].map { |i| wake('x', "#{@channel}.#{i}") }, b.events(2))
  end

  # S1: once the response begins, nothing that is committed is missed.
  def test_the_response_begins_once_it_listens
    30.times do |i|
      channel = "#{@channel}.#{i}"
      b = browser('plain', channel)
      host.notify(channel, 'x')
      assert_equal(wake('x', channel), b.event)
    end
  end

  def test_a_gap_is_a_resync
    all = browsers(4)
    assert_equal(1, host.terminate('pgwaked%'))
    all.each do |b|
      assert_equal([['resync', { 'channel' => @channel, 'cause' => 'reconnect' }]], heard_again(b).uniq)
    end
  end

  def test_the_hub_is_killed
    all = browsers(4)
    host.kill
    begin
      all.each do |b|
        assert_equal([['resync', { 'channel' => @channel, 'cause' => 'hub_lost' }]], heard_again(b).uniq)
      end
      assert_includes(1..WORKERS, host.census('own plain'))
    ensure
      host.start
    end
    assert(eventually { host.census('own plain').zero? })
    heard_again(all[0])
  end

  def test_heartbeats
    b = browser('beating')
    assert(eventually { assert_nil(b.event(0.5)) && b.comments >= 2 })
  end

  # D3: a browser that does not read is dropped, and nobody else notices.
  def test_a_slow_browser
    good = browsers(3, 'narrow')
    slow = browsers(2, 'narrow', receive: 4096)
    texts = (0...1000).map { |i| "#{i} #{'x' * 7000}" }
    texts.each_slice(5) do |some|
      host.sql("SELECT FROM unnest(ARRAY['#{some.join("','")}']) t, pg_notify('#{@channel}', t)")
      good.each { |b| assert_equal(some.map { |text| wake(text) }, b.events(5)) }
    end
    assert(eventually { server.log.scan('does not read is dropped').size == 2 }, server.log)
    slow.each do |b|
      last = nil
      while (event = b.event) != :end
        last = event
      end
      refute_equal(texts.last, last[1]['payload'])
    end
  end

  # One transaction brings more than the thread takes in one turn.
  def test_a_burst
    all = browsers(3, 'narrow')
    host.sql("SELECT FROM generate_series(1, 40) i, pg_notify('#{@channel}', i || repeat('x', 7000))")
    all.each { |b| assert_equal((1..40).map { |i| wake("#{i}#{'x' * 7000}") }, b.events(40)) }
  end

  # One that took some of what waits for it, and then nothing.
  def test_a_browser_that_stalls
    slow = browser('impatient', receive: 4096)
    stalled = -> { server.log.include?('took nothing for 1 s') }
    many = "SELECT FROM generate_series(1, 50) i, pg_notify('#{@channel}', i || repeat('x', 7900))"
    assert(eventually(30) { (host.sql(many) && false) || stalled.call }, server.log)
    nil while slow.event != :end
  end

  def test_unsubscribed_when_nobody_is_left
    b = browser('brief')
    other = browser('brief', "#{@channel}.other")
    assert_equal(2, in_hub('brief').sum { |c| c['channel_count'] })
    b.close
    assert(eventually { in_hub('brief').sum { |c| c['channel_count'] } == 1 })
    # Once the one behind it has come, the hub has dropped the first.
    host.notify(@channel, 'x')
    host.notify("#{@channel}.other", 'x')
    assert_equal(wake('x', "#{@channel}.other"), other.event)
    again = browser('brief')
    host.notify(@channel, 'y')
    assert_equal(wake('y'), again.event)
  end

  def test_refusals
    statuses = {
      403 => [browser('plain', 'forbidden'), Browser.new(server.port, '/plain')],
      400 => [browser('plain', 'c%00'), browser('plain', 'c' * 64)],
      405 => [browser('plain', method: 'POST')],
      503 => [browser('nowhere')]
    }
    statuses.each { |status, all| all.each { |b| assert_equal(status, b.status) } }
    assert_equal('2', statuses[503][0].headers['retry-after'])
    fits = Array.new(WORKERS * 8) { browser('lonely').status }
    assert_equal([200, 503], fits.uniq.sort)
    assert_includes(1..WORKERS, fits.count(200))
  end

  # What was sent before arrives, and then the stream ends, well before a server gives up waiting.
  def test_the_server_stops
    own = Server.new(KIND, host.options)
    all = browsers(4, on: own)
    host.notify(@channel, 'last')
    all.each { |b| assert_equal(wake('last'), b.event) }
    took = seconds do
      own.signal(:TERM)
      all.each { |b| assert_equal([:end, true], [b.event, b.warned?]) }
      assert(own.wait, own.log)
    end
    assert_operator(took, :<, 28) # a server that gives up waiting takes 30
    refute_match(/error/i, own.log)
  ensure
    own&.close
  end

  # A worker that is killed takes only its own browsers with it, and these come back.
  def test_a_worker_is_killed
    skip('one process alone') if WORKERS == 1
    own = Server.new(KIND, host.options)
    all = browsers(12, on: own)
    # Which process takes a connection is the kernel's choice: more of them, until each has one.
    streaming = -> { in_hub.map { |c| c['pid'] } & own.workers }
    all << browser(on: own) until streaming.call.size == WORKERS || all.size == 100
    Process.kill(:KILL, streaming.call.first)
    host.notify(@channel, 'x')
    ended = all.select { |b| b.event == :end }
    assert_includes(1...all.size, ended.size)
    assert(eventually { own.answers? })
    b = browser(on: own)
    host.notify(@channel, 'z')
    assert_equal(wake('z'), b.event)
  ensure
    own&.close
  end

  # Puma's workers end one after another, and their browsers come back to new ones.
  def test_a_phased_restart
    skip('a cluster without preload_app! alone') unless KIND == 'puma'
    own = Server.new(KIND, host.options)
    all = browsers(6, on: own)
    old = own.workers
    own.signal(:USR1)
    all.each { |b| assert_equal(:end, b.event(40)) }
    assert(eventually(40) { own.workers.size == 2 && (own.workers & old).empty? && own.answers? })
    again = browsers(6, on: own)
    host.notify(@channel, 'x')
    again.each { |b| assert_equal(wake('x'), b.event) }
  ensure
    own&.close
  end
end

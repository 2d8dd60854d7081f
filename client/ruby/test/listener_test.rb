# frozen_string_literal: true

require_relative 'support'
require 'English'
require 'open3'
require 'timeout'

class ListenerTest < Minitest::Test
  include Helpers

  HOST = Rig::Host.new('--allow', "uid:#{Process.uid} ok*,c*,d*")

  def listener(**more)
    (@listeners ||= []) << (made = Pgwake::Listener.new(**HOST.options(**more)))
    made
  end

  def teardown
    @listeners&.each(&:close)
  end

  # D6
  def test_payloads_and_wakes_without_one
    l = listener
    l.subscribe('c1', 'c2')
    text = "caf\u00e9 \u{1f418} #{'x' * 7_000}"
    HOST.notify('c1', text)
    HOST.notify('c2')
    first = wake(l)
    assert_equal(['c1', text, HOST.sql('SELECT pg_backend_pid()')[0].to_i], [first.channel, first.payload, first.pid])
    refute_predicate(first, :read_again?)
    second = wake(l)
    assert_equal(['c2', nil], [second.channel, second.payload])
    assert_predicate(second, :read_again?)
    assert_match(/payload of/, first.inspect)
  end

  # D2 D6: in one batch, too.
  def test_one_batch
    l = listener
    l.subscribe('c1', 'c2')
    HOST.notify('c1', 'text')
    HOST.notify('c2')
    HOST.notify('c1', 'more')
    assert(eventually { l.state.wakes >= 3 })
    assert_equal([%w[c1 text], ['c2', nil], %w[c1 more]], Array.new(3) { wake(l) }.map { |e| [e.channel, e.payload] })
  end

  # D6
  def test_bytes_that_are_not_utf8
    host = Rig::Host.new(encoding: 'SQL_ASCII')
    Pgwake::Listener.open(**host.options) do |l|
      l.subscribe('c')
      host.sql("SELECT FROM pg_notify('c', convert_from('\\xe9', 'SQL_ASCII'))")
      event = wake(l)
      assert_equal("\xe9".b, event.payload.b)
      refute_predicate(event.payload, :valid_encoding?)
    end
  ensure
    host&.close
  end

  # D1
  def test_many_events_in_order
    l = listener
    l.subscribe('c1')
    HOST.sql("SELECT FROM (SELECT pg_notify('c1', i || repeat('.', 100)) FROM generate_series(1, 5000) i) x")
    assert_equal((1..5000).to_a, Array.new(5000) { wake(l).payload.to_i })
  end

  def test_timeouts
    l = listener
    l.subscribe('c1')
    nil while l.next(timeout: 0.2)
    assert_operator(seconds { assert_nil(l.next(timeout: 0.1)) }, :>=, 0.09)
    assert_nil(l.next(timeout: 0))
    assert_nil(l.wait_for_notify(0.01))
    assert_empty(l.drain)
  end

  def test_drain_and_wait_for_notify
    l = listener
    l.subscribe('c1')
    10.times { |i| HOST.notify('c1', i.to_s) }
    assert(eventually { l.state.wakes >= 10 })
    some = l.drain(3)
    assert_equal(3, some.size)
    assert_equal((0..9).map(&:to_s), (some + l.drain).select { |e| e.kind == :wake }.map(&:payload))
    HOST.notify('c1', 'x')
    seen = nil
    assert_equal('c1', l.wait_for_notify(60) { |*all| seen = all })
    assert_equal(%w[c1 x], seen.values_at(0, 2))
    HOST.notify('c1')
    l.wait_for_notify(60) { |*all| seen = all }
    assert_equal('', seen[2])
  end

  # C1: the answer reaches who waits for it, whichever thread reads it.
  def test_subscribing_beside_a_thread_that_reads
    l = listener
    preempted = Struct.new(:io) { def wait_readable(left) = sleep(0.05) && io.wait_readable(left) }
    l.instance_variable_set(:@io, preempted.new(l.instance_variable_get(:@io)))
    thread = Thread.new do
      loop { l.next(timeout: 0) || Thread.pass }
    rescue Pgwake::Closed
      nil
    end
    subscribing = Thread.new { 5.times { l.subscribe('c1', timeout: nil).unsubscribe('c1') } }
    assert(subscribing.join(60), 'the answer was not seen')
    l.close
    thread.join
  end

  def test_waker
    options = HOST.options
    waker = Pgwake::Waker.new('c1', 'd1', **options)
    assert(waker.wait(60), 'for what was committed before')
    HOST.notify('c1')
    HOST.notify('d1', 'x')
    assert(waker.wait(60))
    nil while waker.wait(0.2)
    thread = Thread.new { waker.wait }
    HOST.notify('d1')
    assert(thread.value)
    assert_raises(Pgwake::Refused) { Pgwake::Waker.new('forbidden', **options).wait(60) }
    waker.close
    assert_raises(Pgwake::Closed) { waker.wait }
    nobody = Pgwake::Waker.new('c1', socket: '/nonexistent/s', database: 'host=/nonexistent')
    assert_operator(seconds { refute(nobody.wait(0.2)) }, :>=, 0.2)
    nobody.close
  end

  # S8
  # S4: a name is its bytes, whatever encoding it says it has.
  def test_the_encoding_of_a_name_does_not_matter
    l = listener
    l.subscribe('cé'.b)
    assert_equal(['cé'], l.channels)
    HOST.notify('cé', 'here')
    assert_equal('here', wake(l).payload)
    l.unsubscribe('cé'.b)
    assert_empty(l.channels)
  end

  def test_unsubscribe_drops_what_waits
    l = listener
    l.subscribe('c1', 'c2')
    HOST.notify('c1', 'unwanted')
    HOST.notify('c2', 'first')
    assert_equal('unwanted', wake(l).payload)
    HOST.notify('c1', 'unwanted, too')
    HOST.notify('c2', 'second')
    assert_equal('first', wake(l).payload)
    assert(eventually { l.state.wakes >= 4 })
    l.unsubscribe('c1')
    assert_equal('second', wake(l).payload)
    assert_equal(['c2'], l.channels)
  end

  # C2
  def test_a_gap_when_the_hub_is_killed
    host = Rig::Host.new
    Pgwake::Listener.open(**host.options) do |l|
      l.subscribe('c')
      host.kill
      gap = wake(l)
      assert_equal([:hub_lost, true, :own], [gap.gap, gap.read_again?, gap.source])
      host.notify('c', 'after')
      assert_equal('after', wake(l).payload)
      assert_equal(:own, l.state.source)
    end
  ensure
    host&.close
  end

  # C1
  def test_refusals
    l = listener
    refused = assert_raises(Pgwake::Refused) { l.subscribe('c1', 'forbidden') }
    assert_equal(%w[forbidden forbidden], [refused.channel, refused.code])
    assert_equal(['c1'], l.channels)
    assert_equal('invalid_channel', assert_raises(Pgwake::Refused) { l.subscribe('c' * 64) }.code)
    assert_raises(Pgwake::Invalid) { l.subscribe("c\0d") }
    assert_raises(TypeError) { l.subscribe(1) }
    l.subscribe
  end

  # C1
  def test_a_deadline_that_passes
    Pgwake::Listener.open(socket: '/nonexistent/s', database: 'host=/nonexistent') do |l|
      took = seconds { assert_raises(Pgwake::TimeoutError) { l.subscribe('c', timeout: 0.2) } }
      assert_operator(took, :<, 30)
      assert_empty(l.channels)
    end
  end

  def test_mistakes
    [{ polcy: 'poll' }, { policy: 'sometimes' }, { reopen: :maybe }, { name: "a\0b" }].each do |options|
      assert_raises(Pgwake::Invalid) { Pgwake::Listener.new(**options) }
    end
  end

  def ruby(code, **env)
    variables = { 'LIBPGWAKE' => ENV.fetch('LIBPGWAKE') }.merge(env.transform_keys(&:to_s))
    Open3.capture3(variables, RbConfig.ruby, '-I', File.expand_path('../lib', __dir__), '-rpgwake', '-e', code)
  end

  # The error names the package to install.
  def test_a_library_that_is_not_there
    _, said, status = ruby('Pgwake::Listener.new', LIBPGWAKE: '/nonexistent/libpgwake.so.1')
    assert_equal(1, status.exitstatus)
    assert_match(/apt install libpgwake1/, said)
  end

  # Ctrl-C ends a wait, and a subscribe, at once.
  def test_a_signal_is_seen_while_it_waits
    ['nil while l.next(timeout: 0.1); l.next while true', "l.subscribe('c', timeout: nil)"].each do |wait|
      code = <<~RUBY
        trap(:INT, 'DEFAULT') # in a job in the background it is ignored
        l = Pgwake::Listener.new(socket: '/nonexistent/s', database: 'host=/nonexistent')
        Thread.new { sleep 0.5; Process.kill(:INT, Process.pid) }
        begin
          #{wait}
        rescue Interrupt
          puts 'interrupted'
        end
      RUBY
      # It waits for ever if it does not see the signal.
      assert_equal("interrupted\n", Timeout.timeout(120) { ruby(code)[0] })
    end
  end

  # With a listener open, a thread in it and a block that raises: no crash, no hang.
  def test_the_end_of_a_process
    code = <<~RUBY
      l = Pgwake::Listener.new(socket: '/nonexistent/s', policy: :poll, poll_interval: '10ms')
      l.on('c') { }
      l.start
      Thread.new { l.each { } }
      sleep 0.05
    RUBY
    10.times do
      _, said, status = ruby(code)
      assert_equal(['', 0], [said, status.exitstatus])
    end
  end

  def test_close_ends_what_waits_elsewhere
    l = listener
    l.subscribe('c1')
    threads = Array.new(3) do
      Thread.new do
        loop { l.next }
      rescue Pgwake::Closed
        :closed
      end
    end
    sleep(0.1)
    l.close
    assert_equal([:closed] * 3, threads.map(&:value))
    assert_predicate(l, :closed?)
    assert_raises(Pgwake::Closed) { l.next(timeout: 0) }
    assert_raises(Pgwake::Closed) { l.state }
    assert_empty(l.each.to_a)
  end

  def test_blocks_in_a_thread
    host = Rig::Host.new
    l = Pgwake::Listener.new(**host.options)
    seen = Queue.new
    l.on('c') do |event|
      raise 'of the test' if event.payload == 'bad'

      seen << event.payload
    end
    l.on('d') { seen << 'unwanted' }
    l.on_gap { |channels, cause| seen << [channels.sort, cause] }
    _, said = capture_io do
      l.start
      %w[bad good].each { |payload| host.notify('c', payload) }
      assert_equal('good', seen.pop)
    end
    assert_match(/of the test/, said)
    host.kill
    gaps = []
    gaps += seen.pop[0] until gaps.sort == %w[c d]
    thread = l.start
    l.close
    refute_predicate(thread, :alive?)
  ensure
    host&.close
  end

  # Level-triggered, one event at a time, whatever was read ahead.
  def test_to_io
    l = listener
    l.subscribe('c1')
    l.to_io
    20.times { |i| HOST.notify('c1', i.to_s) }
    l.subscribe('c2')
    seen = []
    while seen.size < 20
      assert(IO.select([l], nil, nil, 60))
      event = l.next(timeout: 0)
      seen << event.payload if event&.kind == :wake
    end
    assert_equal((0..19).map(&:to_s), seen)
    nil while l.next(timeout: 0)
    assert_nil(IO.select([l], nil, nil, 0.05))
  end

  # What a subscribe has read while it waited for its answer is told as well.
  def test_to_io_and_subscribing
    l = listener
    l.subscribe('c1')
    nil while l.next(timeout: 0)
    l.to_io
    HOST.notify('c1', 'x')
    l.subscribe('c2')
    assert(IO.select([l], nil, nil, 10))
    assert_equal('x', l.next(timeout: 0).payload)
  end

  def test_nothing_is_left_behind
    use = lambda do |close|
      l = Pgwake::Listener.new(**NOWHERE)
      l.to_io
      l.subscribe('c')
      l.next
      close ? l.close : nil
    end
    count = -> { [Dir.children('/proc/self/fd').size, Dir.children('/proc/self/task').size] }
    2.times { use.call(true) }
    before = count.call
    20.times { use.call(true) }
    # A thread that has ended may stand in /proc for a moment, before and after.
    assert(eventually { count.call.zip(before).all? { |now, then_| now <= then_ } }, "#{count.call}, #{before} before")
    20.times { use.call(false) }
    GC.start
    assert_operator(count.call[1], :<, before[1] + 15) # the stack may still name some
  end

  # C8
  def test_a_child_goes_on_by_itself
    l = listener
    l.subscribe('c1', 'c2')
    l.to_io
    child = lambda do
      return 1 unless Array.new(2) { wake(l) }.to_h { |e| [e.channel, e.gap] } == { 'c1' => :forked, 'c2' => :forked }

      l.subscribe('ok1')
      l.channels.sort == %w[c1 c2 ok1] ? 0 : 2
    end
    assert_equal(0, in_child(&child))
    assert_equal(0, in_child { in_child(&child) })
    HOST.notify('c1', "the parent's")
    assert_equal("the parent's", wake(l).payload)
    assert_equal(0, l.state.gaps)
  end

  # C8
  def test_a_child_by_hand
    l = listener(reopen: :manual)
    l.subscribe('c1')
    code = in_child do
      begin
        l.next(timeout: 0)
        next 1
      rescue Pgwake::Forked
        l.reopen
      end
      wake(l).gap == :forked ? 0 : 2
    end
    assert_equal(0, code)
    l.reopen # not a child: nothing to do
  end

  # C8: the child's locks are its own, whoever held the parent's.
  def test_a_fork_while_threads_wait
    l = listener
    l.subscribe('c1')
    threads = Array.new(3) { Thread.new { l.each(&:kind) } }
    5.times { assert_equal(0, in_child { wake(l).gap == :forked ? 0 : 1 }) }
    assert_equal(0, in_child { l.close || 0 })
    l.close
    threads.each(&:join)
  end
end

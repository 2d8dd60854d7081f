# frozen_string_literal: true

require 'socket'
require 'pgwake/sse'
require_relative 'support'

# What waits for one browser.
class SSEStreamTest < Minitest::Test
  def setup
    @here, @there = UNIXSocket.pair
    @here.setsockopt(:SOCKET, :SNDBUF, 4096)
    @stream = Pgwake::SSEStream.new(['c'], 10_000, 0)
  end

  def teardown
    @stream.close
    @there.close
  end

  # Fills the socket: from now on all that is put in waits.
  def fill
    @stream.attach(@here, 0)
    until @stream.unsent?
      assert(@stream.put('x' * 1000, 0))
      assert(@stream.flush(0))
    end
  end

  def read_all
    out = +''
    loop do
      while (some = @there.read_nonblock(65_536, exception: false)) != :wait_readable
        out << some
      end
      return out unless @stream.unsent?

      @stream.flush(0)
    end
  end

  def test_what_comes_before_the_socket_waits
    assert(@stream.put('a', 0))
    assert(@stream.put('b', 0))
    assert(@stream.flush(0))
    @stream.attach(@here, 0)
    assert(@stream.flush(0))
    assert_equal('ab', read_all)
  end

  def test_the_bound
    fill
    count = 0
    count += 1 while @stream.put('x' * 1000, 0)
    assert_includes(8..10, count)
    assert_operator(read_all.size, :>, 10_000)
    assert(@stream.put('x', 0))
  end

  # D2: wakes that say the same merge while one waits, and never once it is sent.
  def test_wakes_without_payload_merge
    fill
    1000.times { assert(@stream.put('wake 1;', 0, 1)) }
    assert(@stream.put('payload;', 0))
    1000.times { assert(@stream.put('wake 2;', 0, 2) && @stream.put('wake 1;', 0, 1)) }
    assert_equal('wake 1;payload;wake 2;', read_all.delete('x'))
    assert(@stream.put('wake 1;', 0, 1))
    assert(@stream.flush(0))
    assert_equal('wake 1;', read_all)
  end

  def test_stalled
    refute(@stream.stalled?(10, 10))
    assert(@stream.stalled?(11, 10), 'a response that never begins')
    fill
    refute(@stream.stalled?(10, 10))
    assert(@stream.stalled?(11, 10))
    read_all
    refute(@stream.stalled?(100, 10), 'nothing waits')
    @stream.put('x' * 100, 100)
    refute(@stream.stalled?(105, 10))
  end

  def test_a_browser_that_has_gone
    @stream.attach(@here, 0)
    assert(@stream.listen)
    @there.write('x')
    assert(@stream.listen)
    @there.close
    refute(@stream.listen)
    @stream.put('x', 0)
    refute(@stream.flush(0))
  end
end

# A process that has browsers forks, as Puma's does with fork_worker: they stay its own.
class SSEForkTest < Minitest::Test
  include Helpers

  SETTINGS = Pgwake::SSEFanout::Settings.new(heartbeat: 15, write_timeout: 30, max_unsent: 10_000, linger: 30,
                                             max_browsers: 9, reconnect: 2).freeze

  def setup
    @ends = []
  end

  def teardown
    Pgwake::SSEFanout.close_all
    @ends.each(&:close)
  end

  # @return [IO] the browser's end
  def browser
    here, there = UNIXSocket.pair
    @ends << there
    fanout = Pgwake::SSEFanout.for(SETTINGS, NOWHERE)
    fanout.attach(fanout.enter(['c'], 10), here)
    there
  end

  def read_wake(from)
    seen = +''
    eventually { (seen << (from.wait_readable(0.1) ? from.readpartial(1000) : '')) && seen.include?('event: wake') }
  end

  def test_the_browsers_stay_the_parents
    ours = browser
    told, tell = IO.pipe
    # They end when told; what they hold would keep a connection open.
    children = [-> { true }, -> { read_wake(browser) }].map do |job|
      fork do
        tell.close
        code = job.call ? 0 : 1
        told.read
        exit!(code)
      end
    end
    told.close
    assert(read_wake(ours))
    Pgwake::SSEFanout.close_all
    assert(eventually { ours.wait_readable(0.1) && ours.read_nonblock(10_000, exception: false).nil? })
    tell.close
    assert_equal([0, 0], children.map { |child| Process.wait2(child)[1].exitstatus })
  end
end

# What waits when a process ends is sent, and then the response ends.
class SSEEndTest < Minitest::Test
  CODE = <<~'RUBY'
    require 'socket'
    require 'pgwake/sse'
    settings = Pgwake::SSEFanout::Settings.new(heartbeat: 15, write_timeout: 30, max_unsent: 1 << 20, linger: 30,
                                               max_browsers: 9, reconnect: 2)
    fanout = Pgwake::SSEFanout.for(settings, { socket: '/nonexistent/s', policy: :poll })
    stream = fanout.enter(['c'], 10)
    stream.put("#{'x' * 900_000}end\n", 0)
    fanout.attach(stream, UNIXSocket.for_fd(3))
  RUBY

  def test_what_waits_is_sent
    here, there = UNIXSocket.pair
    child = Process.spawn(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, '-e', CODE, 3 => there)
    there.close
    assert(here.read.end_with?("end\nevent: shutdown\ndata: {}\n\n"), 'the response has ended before its time')
    assert_predicate(Process.wait2(child)[1], :success?)
    here.close
  end
end

class SSERequestTest < Minitest::Test
  def status(**env)
    Pgwake.sse('c', **NOWHERE).call({ 'REQUEST_METHOD' => 'GET' }.merge(env.transform_keys(&:to_s)))[0]
  end

  def test_servers_that_cannot
    assert_equal(501, status)
    assert_equal(501, status('rack.hijack?': true, 'puma.socket': Object.new)) # TLS
    assert_equal(501, status('rack.hijack?': true, SERVER_SOFTWARE: 'Unicorn 6.0.0'))
  end

  # A block may take names from the request: `?channel=a&channel` is ['a', nil].
  def test_what_is_no_name_is_refused_before_anything_begins
    env = { 'REQUEST_METHOD' => 'GET', 'rack.hijack?' => true }
    [nil, 1, ['a']].each do |wrong|
      status, _, body = Pgwake.sse(socket: '/nonexistent') { ['a', wrong] }.call(env)
      assert_equal([400, "#{wrong.inspect} is not the name of a channel\n"], [status, *body])
    end
  end

  def test_channels_must_be_named
    assert_raises(ArgumentError) { Pgwake.sse }
    assert_raises(ArgumentError) { Pgwake.sse('c') { 'c' } }
  end
end

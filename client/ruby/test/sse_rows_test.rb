# frozen_string_literal: true

require 'socket'
require 'pgwake/sse'
require_relative 'support'

# The rows behind the channels, as the browsers of one process get them. Reminders stand in for wakes; examples/sse-puma has
# both sides, with a table.
class SSERowsTest < Minitest::Test
  include Helpers

  # Of the payloads; 10,000 bytes may wait.
  LENGTHS = { 'long' => 20_000, 'half' => 6_000 }.freeze

  # Rows of each channel, with their number as payload.
  class Rows
    attr_reader :reads
    attr_writer :broken
    # @return [Mutex] held, no read ends
    attr_reader :gate

    def initialize
      @newest = Hash.new(0)
      @reads = []
      @gate = Mutex.new
    end

    def add(channel, count = 1)
      @newest[channel] += count
    end

    def newest(channel)
      raise IOError, 'no database' if @broken

      @newest[channel]
    end

    def after(channel, id, limit)
      raise IOError, 'no database' if @broken

      @reads << id
      @gate.synchronize { nil }
      (id + 1..@newest[channel]).first(limit).map { |n| [n, LENGTHS.key?(channel) ? 'x' * LENGTHS[channel] : n.to_s] }
    end
  end

  # The browser's end of a stream.
  class Reader
    attr_reader :ids, :rows, :started

    def initialize(socket)
      @socket = socket
      @buffer = +''
      @ids = []
      @rows = []
    end

    def take(most = 1 << 20)
      return unless @socket.wait_readable(0.05)

      @buffer << @socket.readpartial(most)
      while (text = @buffer.slice!(/\A.*?\n\n/m))
        @ids << Regexp.last_match(1) if text =~ /^id: (.*)$/
        @started = JSON.parse(Regexp.last_match(1))['id'] if text =~ /\Aid: .*\nevent: start\ndata: (.*)$/
        @rows << JSON.parse(Regexp.last_match(1)).values_at('channel', 'id') if text =~ /^event: row\ndata: (.*)$/
      end
    end

    def close
      @socket.close
    end
  end

  def setup
    @rows = Rows.new
    @log = []
    @readers = []
    log = @log
    logger = Object.new
    logger.define_singleton_method(:warn) { |text| log << text }
    settings = Pgwake::SSEFanout::Settings.new(heartbeat: 15, write_timeout: 300, max_unsent: 10_000, linger: 30,
                                               max_browsers: 99, reconnect: 2, logger: logger, rows: @rows)
    @settings = settings
    @fanout = Pgwake::SSEFanout.for(settings, NOWHERE)
  end

  def teardown
    Pgwake::SSEFanout.close_all
    @readers.each(&:close)
  end

  def browser(*channels, positions: nil, timeout: 20)
    attached(@fanout.enter(channels, timeout, positions))
  end

  def attached(stream)
    here, there = UNIXSocket.pair
    here.setsockopt(:SOCKET, :SNDBUF, 4096)
    @fanout.attach(stream, here)
    Reader.new(there).tap { |reader| @readers << reader }
  end

  def expect_rows(reader, channel, numbers, most = 1 << 20)
    expected = numbers.map { |n| [channel, n] }
    assert(eventually(30) { reader.take(most) || reader.rows.size >= expected.size }, "#{reader.rows.size} rows: #{@log}")
    assert_equal(expected, reader.rows)
  end

  def test_from_the_newest_row_on
    @rows.add('c', 7)
    reader = browser('c')
    @rows.add('c', 3)
    expect_rows(reader, 'c', 8..10)
    assert_equal('7', reader.started)
    assert_equal(%w[7 8 9 10], reader.ids)
  end

  def test_from_where_the_browser_was
    @rows.add('c', 7)
    expect_rows(browser('c', positions: [4]), 'c', 5..7)
  end

  # From now on no wake comes.
  def without_reminders(**settings)
    changed = Pgwake::SSEFanout::Settings.new(**@settings.to_h, **settings)
    @fanout = Pgwake::SSEFanout.for(changed, { **NOWHERE, poll_interval: '10m' })
  end

  def test_more_than_one_read_and_more_than_may_wait
    without_reminders
    @rows.add('c', 3000)
    slow = browser('c', positions: [0])
    expect_rows(slow, 'c', 1..3000, 4096)
    assert_empty(@log)
  end

  # Longer than may wait: one at a time.
  def test_long_rows
    @rows.add('long', 5)
    reader = browser('long', positions: [0])
    @rows.add('long')
    expect_rows(reader, 'long', 1..6)
    assert_empty(@log)
  end

  # It is not read again before nothing waits any more.
  def test_a_row_without_room_waits_for_it
    stream = @fanout.enter(['half'], 20, [0])
    assert(stream.put(":#{'x' * 4_500}\n\n", 0))
    @rows.add('half')
    assert(eventually { stream.behind.empty? || !stream.takes_rows? })
    before = @rows.reads.size
    sleep(0.3)
    assert_operator(@rows.reads.size - before, :<=, 2)
    expect_rows(attached(stream), 'half', 1..1)
  end

  def test_a_long_row_on_its_way_drops_nobody
    stream = Pgwake::SSEStream.new(['long'], 10_000, 0, [0])
    stream.stage = :takes
    assert(stream.put_row('long', 1, 'x' * 20_000, 0))
    assert(stream.put("event: wake\ndata: {}\n\n", 0))
    refute(stream.put_row('long', 2, 'x', 0))
    refute(stream.put('x' * 10_001, 0))
    assert_equal({ 'long' => 1 }, stream.positions)
  end

  # SELECT max(id) of an empty table is NULL.
  def test_no_row_yet
    @rows.define_singleton_method(:newest) { |_| nil }
    reader = browser('c')
    @rows.add('c')
    expect_rows(reader, 'c', 1..1)
    assert_empty(@log)
  end

  def test_a_source_that_lacks_something
    @rows.define_singleton_method(:newest) { |_| raise NotImplementedError, 'no such query' }
    assert_raises(Pgwake::TimeoutError) { browser('c', timeout: 0.1) }
    assert_includes(@log.join, 'no such query')
    @rows.singleton_class.remove_method(:newest)
    browser('c')
  end

  # They would wait for ever.
  def test_a_reader_that_ends_ends_the_streams
    @rows.define_singleton_method(:newest) { |_| Thread.exit }
    assert_raises(Pgwake::Closed) { browser('c') }
    assert(eventually { @fanout.ended? })
  end

  def test_who_catches_up_holds_up_nobody
    without_reminders(max_unsent: 1 << 20)
    @rows.add('c', 2000)
    far = nil
    near = nil
    @rows.gate.synchronize do
      far = browser('c', positions: [0])
      assert(eventually { @rows.reads == [0] })
      near = browser('c', positions: [1999])
    end
    expect_rows(near, 'c', 2000..2000)
    expect_rows(far, 'c', 1..2000)
    assert_includes(@rows.reads.first(3), 1999)
  end

  def test_one_read_for_all
    readers = Array.new(30) { browser('c') }
    assert(eventually { @rows.reads.size >= 30 })
    before = @rows.reads.size
    took = seconds do
      @rows.add('c')
      readers.each { |reader| expect_rows(reader, 'c', 1..1) }
    end
    assert_operator(@rows.reads.size - before, :<=, (took / 0.02) + 2) # a reminder every 20 ms
  end

  def test_several_channels
    @rows.add('a', 5)
    @rows.add('b', 2)
    reader = browser('a', 'b', positions: [4, 2])
    expect_rows(reader, 'a', 5..5)
    @rows.add('b')
    assert(eventually { reader.take || reader.rows.size == 2 })
    assert_equal([%w[4,2 5,2 5,3], ['b', 3]], [reader.ids, reader.rows.last])
  end

  # Each row once and in order, whatever is added while a browser comes.
  def test_coming_while_rows_are_added
    adder = Thread.new { 1000.times { @rows.add('c') && sleep(0.0002) } }
    readers = Array.new(50) { browser('c') }
    adder.join
    readers.each do |reader|
      assert(eventually { reader.take || reader.started })
      expect_rows(reader, 'c', (reader.started.to_i + 1)..@rows.newest('c'))
    end
  end

  def test_a_database_that_is_away
    reader = browser('c')
    @rows.broken = true
    @rows.add('c')
    assert(eventually { @log.any? { |text| text.include?('the rows of c cannot be read: no database') } })
    assert_raises(Pgwake::TimeoutError) { browser('c', timeout: 0.1) }
    @rows.broken = false
    expect_rows(reader, 'c', 1..1)
    assert_equal('1', browser('c').tap { |b| eventually { b.take || b.started } }.started)
  end

  def test_what_a_browser_says_it_has
    positions = lambda do |header, query = '', channels = ['c']|
      env = { 'HTTP_LAST_EVENT_ID' => header, 'QUERY_STRING' => query }
      Pgwake.sse('c', rows: @rows, **NOWHERE).send(:positions, env, channels)
    end
    assert_equal([7], positions['7'])
    assert_equal([7], positions[nil, 'x=1&last_event_id=7'])
    assert_equal([7], positions['7', 'last_event_id=5'], 'a page that came back by itself knows better')
    assert_equal([7, 8], positions[nil, 'last_event_id=7%2C8', %w[a b]])
    ['', 'x', '7,8', '-1', '7;', '9' * 19, '9' * 30, "7\n", "\xff"].each { |wrong| assert_nil(positions[wrong], wrong) }
    assert_nil(Pgwake.sse('c', **NOWHERE).send(:positions, { 'HTTP_LAST_EVENT_ID' => '7' }, ['c']))
  end
end

# frozen_string_literal: true

# The Ruby receivers of bench/bindings/measure: receiver.rb KIND SOCKET CONNINFO CHANNEL, or receiver.rb once WHAT.

$LOAD_PATH.unshift(File.expand_path('../../client/ruby/lib', __dir__))
BEGUN = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
require 'pgwake' unless ARGV[0] == 'pg'
LOADED = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
require 'json'

NOBODY = { socket: '/nonexistent/s', policy: :poll, poll_interval: '10ms' }.freeze

def say(what)
  $stdout.syswrite("#{JSON.generate(what)}\n")
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

def processor
  Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) * 1e6
end

def resident
  { pages: File.read('/proc/self/statm').split[1].to_i, descriptors: Dir.children('/proc/self/fd').size }
end

# What a handler sees, until there are enough.
class Counting
  attr_reader :left

  def initialize(count, timed)
    @left = count
    @timed = timed
    @seen = []
    @processor = processor
  end

  def one(payload)
    if @timed
      @seen << (now - payload.to_i)
    else
      @from ||= now
    end
    @left -= 1
  end

  def result
    return { us: @seen.sort[@seen.size / 2] / 1e3 } if @timed

    { seconds: (now - @from) / 1e9, us: processor - @processor }
  end
end

# libpgwake
class PgwakeReceiver
  def initialize(socket, conninfo, channel)
    @options = { socket: socket, database: conninfo }
    @channel = channel
    @listener = Pgwake::Listener.new(**@options)
    @listener.subscribe(channel, timeout: 60)
  end

  def take(counting)
    while counting.left.positive?
      events = @listener.drain(1000)
      events = [@listener.next] if events.empty?
      events.each { |event| counting.one(event.payload) if event.kind == :wake }
    end
  end

  def idle(seconds)
    till = now + (seconds * 1_000_000_000)
    @listener.next(timeout: (till - now) / 1e9) while now < till
  end

  def opens(count)
    count.times { Pgwake::Listener.open(**@options) { |l| l.subscribe(@channel, timeout: 60) } }
  end
end

# ruby-pg
class PgReceiver
  def initialize(_socket, conninfo, channel)
    require 'pg'
    @connection = PG.connect(conninfo)
    @connection.exec("LISTEN #{channel}")
  end

  def take(counting)
    @connection.wait_for_notify { |_, _, payload| counting.one(payload) } while counting.left.positive?
  end
end

def measured(receiver, what, number)
  return resident if what == 'resident'

  counting = Counting.new(number, what == 'latency')
  if %w[latency burst].include?(what)
    receiver.take(counting)
    return counting.result
  end
  used = processor
  receiver.public_send(what, number) # idle, opens
  { us: processor - used }
end

def serve(kind, *where)
  receiver = { 'pgwake' => PgwakeReceiver, 'pg' => PgReceiver }.fetch(kind).new(*where)
  say('listens')
  while (line = $stdin.gets)
    what, number = line.split
    say('ready')
    say(measured(receiver, what, number.to_i))
  end
end

def interrupted(what)
  listener = Pgwake::Listener.new(socket: '/nonexistent/s', database: 'host=/nonexistent')
  say('waits')
  listener.subscribe('c', timeout: nil) if what == 'subscribe'
  loop { listener.next }
rescue Interrupt
  say({ ns: now })
end

def once(what)
  case what
  when 'import' then say({ ms: (LOADED - BEGUN) / 1e6 })
  when 'exit' then Pgwake::Listener.new(**NOBODY).subscribe('c').next
  else interrupted(what)
  end
end

ARGV[0] == 'once' ? once(ARGV[1]) : serve(*ARGV)

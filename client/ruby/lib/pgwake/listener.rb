# frozen_string_literal: true

require 'io/wait'
require 'json'

module Pgwake
  # Receives PostgreSQL notifications through the host's hub (pgwaked), and through a LISTEN connection of its own while
  # the hub is away. It waits on a descriptor and never inside the library, so that signals, threads, fiber schedulers and
  # forks are as with any other Ruby code.
  #
  # Any thread may use it, and several at once: an event goes to one of those that wait.
  class Listener
    include Enumerable

    ROOM = 64 * 1024
    LONGEST = 0x7fffffff
    MOST_AT_ONCE = 1000
    private_constant :ROOM, :LONGEST, :MOST_AT_ONCE

    # A subscribe that waits for its answers.
    Pending = Struct.new(:left, :failed)
    private_constant :Pending

    # @return [Array<String>] what is subscribed
    def channels
      @channels.keys
    end

    # A channel as events name it: its bytes count, whatever their encoding is called (Rack says ASCII-8BIT of a path).
    # @api private
    def self.key_of(channel)
      return channel if !channel.is_a?(String) || channel.encoding == Encoding::UTF_8

      channel.dup.force_encoding(Encoding::UTF_8)
    end

    # Opens a listener; with a block, yields and closes it, and answers what the block does. See {#initialize}.
    def self.open(**options)
      listener = new(**options)
      return listener unless block_given?

      begin
        yield listener
      ensure
        listener.close
      end
    end

    # Opening never waits for the network.
    #
    # @param socket [String, nil] path of the hub's socket
    # @param database [String, nil] libpq connection string of the own connection
    # @param name [String, nil] what `pgwaked status` calls this worker
    # @param policy [String, Symbol, nil] `listener`, `poll`, `none` or `direct`
    # @param reopen [Symbol] `:auto`: in a forked child the listener opens itself anew with what was subscribed, and a
    #   gap `:forked` comes on each channel; `:manual`: calls raise {Forked} there until {#reopen}
    # @param ignore_environment [Boolean] the PGWAKE_ variables are not looked at
    # @param options all others of docs/client.md, such as `poll_interval: '500ms'`
    # @raise [Invalid]
    def initialize(socket: nil, database: nil, name: nil, policy: nil, reopen: :auto, ignore_environment: false,
                   **options)
      raise Invalid, 'reopen: write :auto or :manual' unless %i[auto manual].include?(reopen)

      @manual = reopen == :manual
      @handle = open_handle({ socket: socket, database: database, name: name, policy: policy, **options },
                            ignore_environment)
      @cell = [@handle]
      ObjectSpace.define_finalizer(self, self.class.finalizer(@cell))
      @buffer = Fiddle::Pointer.malloc(ROOM, Fiddle::RUBY_FREE)
      @used = Fiddle::Pointer.malloc(Fiddle::SIZEOF_SIZE_T, Fiddle::RUBY_FREE)
      @ids = 0
      @pending = {}
      @channels = {}
      @backlog = Backlog.new
      @handlers = {}
      @gap_handlers = []
      @closed = false
      settle_in
    end

    # Returns once every notification committed from now on is delivered, or a gap on that channel is.
    #
    # @param timeout [Numeric, nil] seconds; nil: for ever
    # @raise [Refused, TimeoutError] for the first channel that is not subscribed; the others are
    def subscribe(*channels, timeout: 10)
      inside do
        pending = begin_subscribe(channels, timeout)
        # The library answers at the deadline; this much later nobody waits for it any more.
        answered = wait(timeout && (timeout + 1)) { pending.left.zero? }
        raise TimeoutError, 'subscribe: no answer within the deadline' unless answered
        raise pending.failed if pending.failed
      ensure
        @pending.delete_if { |_, other| other.equal?(pending) }
        tell_outside # events that came before the answer
      end
      self
    end

    # Ends subscriptions; waits for nobody. No wake of these channels is handed out after it.
    def unsubscribe(*channels)
      inside do
        channels.each do |channel|
          Native.check(Native.call(:unsubscribe, @handle, name_of(channel)))
          key = Listener.key_of(channel)
          @channels.delete(key)
          @handlers.delete(key)
          @backlog.forget(key)
        end
        tell_outside
      end
      self
    end

    # @param timeout [Numeric, nil] seconds; nil: for ever
    # @return [Event, nil] the next event; nil when the timeout has passed
    def next(timeout: nil)
      inside do
        return nil if @backlog.empty? && !wait(timeout) { !@backlog.empty? }

        event = @backlog.shift
        tell_outside
        event
      end
    end

    # All events, for ever; ends when the listener is closed.
    # @yieldparam event [Event]
    def each
      return to_enum unless block_given?

      loop do
        break unless (event = next_or_nothing)

        yield event
      end
      self
    end

    # @return [Array<Event>] all that waits, at most `max`; waits for nothing
    def drain(max = nil)
      inside do
        most = max || (@backlog.size + state_now.waiting)
        out = []
        out << @backlog.shift while out.size < most && (!@backlog.empty? || wait(0) { !@backlog.empty? })
        tell_outside
        out
      end
    end

    # As PG::Connection has it: waits for one wake. A wake without payload and a gap have the payload "".
    #
    # @yieldparam channel [String]
    # @yieldparam pid [Integer]
    # @yieldparam payload [String]
    # @return [String, nil] the channel; nil when the timeout has passed
    def wait_for_notify(timeout = nil)
      till = timeout && (now + timeout)
      loop do
        event = self.next(timeout: till && [till - now, 0].max)
        return nil unless event
        next unless event.kind == :wake

        yield event.channel, event.pid, event.payload || '' if block_given?
        return event.channel
      end
    end

    # Subscribes, and calls the block for each wake of the channel that {#start} or {#dispatch} takes.
    # @yieldparam event [Event]
    def on(channel, timeout: 10, &block)
      raise ArgumentError, 'a block is missing' unless block

      subscribe(channel, timeout: timeout)
      @handlers[Listener.key_of(channel)] = block
      self
    end

    # Calls the block when notifications may have been missed. Without one, a gap goes to the channel's own block.
    # @yieldparam channels [Array<String>]
    # @yieldparam cause [Symbol] see {Event#gap}
    def on_gap(&block)
      raise ArgumentError, 'a block is missing' unless block

      @gap_handlers << block
      self
    end

    # Calls the blocks of {#on} and {#on_gap} for what waits, and for what comes within `timeout` if nothing does. What a
    # block raises comes out of here, and the events behind it wait for the next call.
    # @return [Integer] how many events were taken
    def dispatch(timeout: nil)
      taken = 0
      # A stream that never ends must not keep this thread for ever.
      while taken < MOST_AT_ONCE
        events = take_alike(taken.zero? ? timeout : 0)
        break if events.empty?

        taken += events.size
        hand_out(events)
      end
      taken
    end

    # Dispatches in a thread of its own until the listener is closed. What a block raises is reported and the next event
    # is taken. Threads do not survive a fork: call it again in the child.
    # @return [Thread]
    def start
      return @thread if @thread&.alive?

      @thread = Thread.new do
        Thread.current.name = 'pgwake dispatch'
        loop do
          dispatch
        rescue Closed
          break
        rescue StandardError => e
          warn("pgwake: a block of a channel failed: #{e.full_message(highlight: false)}")
        end
      end
    end

    # @return [IO] readable while events wait, for IO.select and event loops. Only look at its readiness. Another one after
    #   a fork.
    def to_io
      inside do
        @outside ||= Readiness.new(@descriptor).tap { |r| r.tell(!@backlog.empty?) }
        @outside.io
      end
    end

    # @return [State] a snapshot: who serves, what was counted
    def state
      inside { state_now }
    end

    # In a forked child: opens it anew with what was subscribed. Elsewhere it does nothing.
    def reopen
      come_over(true) if Process.pid != @pid
      self
    end

    def closed?
      @closed
    end

    # Ends everything; calls that wait elsewhere raise {Closed}. May be called again.
    def close
      renew if Process.pid != @pid
      @lock.synchronize do
        return if @closed

        @closed = true
        Native.call(:shutdown, @handle)
        end_pending(Closed.new('the listener was closed'))
        @changed.broadcast
        @changed.wait(@lock) while @poller
        handle = @cell.shift
        Native.call(:close, handle) if handle
        @outside&.close
      end
      @thread&.join unless @thread == Thread.current
      nil
    end

    # @api private
    # It only closes. At the end of the process Ruby has ended all other threads before.
    def self.finalizer(cell)
      proc do
        handle = cell.shift
        Native.call(:close, handle) if handle
      end
    end

    private

    def next_or_nothing
      self.next
    rescue Closed
      nil
    end

    # The next event, and those behind it if they are gaps for the same reason.
    def take_alike(timeout)
      inside do
        return [] if @backlog.empty? && !wait(timeout) { !@backlog.empty? }

        events = [@backlog.shift]
        events << @backlog.shift while events[0].gap && @backlog.first&.gap == events[0].gap
        tell_outside
        events
      end
    end

    def hand_out(events)
      if events[0].gap && !@gap_handlers.empty?
        @gap_handlers.each { |block| block.call(events.map(&:channel), events[0].gap) }
      else
        events.each { |event| @handlers[event.channel]&.call(event) if event.kind == :wake }
      end
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def open_handle(given, ignore_environment)
      options = Native.call(:options_new)
      raise NoMemoryError, 'pgwake_options_new' if options.null?

      Native.call(:options_ignore_environment, options) if ignore_environment
      given.each { |key, value| set_option(options, key.to_s, value) unless value.nil? }
      place = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP, Fiddle::RUBY_FREE)
      Native.check(Native.call(:open, place, options))
      place.ptr
    ensure
      Native.call(:options_free, options) if options && !options.null?
    end

    def set_option(options, key, value)
      text = { true => 'on', false => 'off' }.fetch(value, value).to_s
      raise Invalid, "#{key}: holds a NUL" if text.include?("\0")

      Native.check(Native.call(:options_set, options, "#{key}\0", "#{text}\0"))
    end

    def name_of(channel)
      raise TypeError, "a channel is a String, not #{channel.class}" unless channel.is_a?(String)
      raise Invalid, "#{channel.inspect}: a channel's name holds no NUL" if channel.b.include?("\0")

      "#{channel}\0"
    end

    def settle_in
      @pid = Process.pid
      @descriptor = Native.check(Native.call(:fd, @handle))
      # Another owner than Ruby: the library closes it.
      @io = IO.for_fd(@descriptor, autoclose: false)
      renew
    end

    def renew
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @poller = nil
      @outside&.close
      @outside = nil
    end

    def inside(&block)
      come_over(false) if Process.pid != @pid
      raise Closed, 'the listener is closed' if @closed

      @lock.synchronize(&block)
    end

    # In a child. The parent's locks may be held here, by threads that do not exist.
    def come_over(by_hand)
      raise Closed, 'the listener is closed' if @closed
      raise Forked, 'the listener was opened before fork; call its reopen in the child' if @manual && !by_hand

      renew
      @backlog.clear
      end_pending(Forked.new('the process forked meanwhile'))
      result = Native.call(:reopen_subscribed, @handle)
      known = result != Native::SYSTEM
      result = Native.call(:reopen, @handle) unless known
      Native.check(result) unless result == Native::INVALID # it is this process's already
      settle_in
      begin_subscribe(channels, nil) unless known
    end

    def begin_subscribe(channels, timeout)
      names = channels.map { |channel| Fiddle::Pointer[name_of(channel)] }
      pending = Pending.new(names.size, nil)
      return pending if names.empty?

      @ids += 1
      list = names.map(&:to_i).pack('J*')
      milliseconds = timeout ? (timeout * 1000).round.clamp(0, LONGEST) : -1
      Native.check(Native.call(:subscribe_start, @handle, list, names.size, milliseconds, @ids))
      @pending[@ids] = pending
    end

    def end_pending(why)
      @pending.each_value do |pending|
        pending.left = 0
        pending.failed ||= why
      end
      @pending.clear
    end

    # Until the block answers true; holds the lock but while it waits. One thread polls, the others wait for it: if they
    # read meanwhile, the descriptor could be quiet again before that one looks at it.
    def wait(timeout)
      till = timeout && (now + timeout)
      loop do
        @changed.broadcast while !yield && !@poller && pump
        return true if yield
        raise Closed, 'the listener was closed' if @closed

        left = till && (till - now)
        return false if left && left <= 0

        @poller ? @changed.wait(@lock, left) : poll(left)
      end
    end

    def poll(left)
      tell_outside
      @poller = Thread.current
      lock = @lock
      lock.unlock
      begin
        @io.wait_readable(left)
      ensure
        lock.lock
        @poller = nil
        @changed.broadcast
      end
    end

    # Reads what waits in the library, one batch at most. False: nothing did.
    def pump
      return false if @closed

      count = Native.call(:read, @handle, @buffer, @buffer.size, @used, 0, 0)
      used = @used[0, Fiddle::SIZEOF_SIZE_T].unpack1('J')
      if count == Native::INVALID && used.positive? # an event larger than the buffer
        @buffer = Fiddle::Pointer.malloc(used, Fiddle::RUBY_FREE)
        return pump
      end
      return false if count.zero? || [Native::FORKED, Native::CLOSED].include?(count)

      Native.check(count)
      sort(Event.unpack(@buffer[0, used]))
      true
    end

    def sort(events)
      return @backlog.fill(events) if @backlog.empty? && @pending.empty? && events.all? { |e| e.kind == :wake }

      events.each do |event|
        case event.kind
        when :subscribed then answer(event)
        when nil then next
        else
          @channels.delete(event.channel) if event.kind == :refused
          @backlog.push(event)
        end
      end
    end

    def answer(event)
      @channels[event.channel] = true if event.result == Native::OK
      pending = @pending[event.id]
      return unless pending

      if event.result != Native::OK
        why = event.reason.empty? ? 'no answer within the deadline' : event.reason
        pending.failed ||= Native.error(event.result, why, event.channel)
      end
      pending.left -= 1
    end

    def state_now
      room = Fiddle::Pointer.malloc(8 * 1024, Fiddle::RUBY_FREE)
      size = Native.check(Native.call(:state_json, @handle, room, room.size))
      said = JSON.parse(room[0, size].force_encoding(Encoding::UTF_8), symbolize_names: true)
      said[:source] = said[:source].to_sym
      State.new(**said.slice(*State.members))
    end

    def tell_outside
      @outside&.tell(!@backlog.empty?)
    end
  end
end

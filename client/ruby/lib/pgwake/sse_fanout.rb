# frozen_string_literal: true

require 'json'
require 'pgwake'
require 'pgwake/sse_rows'
require 'pgwake/sse_stream'

module Pgwake
  # The browsers of one process, and its one listener. One thread takes events and writes to all sockets, which never
  # block it; the threads of the server only subscribe.
  # @api private
  class SSEFanout
    Settings = Struct.new(:heartbeat, :write_timeout, :max_unsent, :linger, :max_browsers, :reconnect, :logger,
                          :rows, keyword_init: true)
    MOST_AT_ONCE = 1000
    HEARTBEAT = ":\n\n"
    SHUTDOWN = "event: shutdown\ndata: {}\n\n"
    # At most, between two looks at who stalls and what is idle.
    TICK = 1
    # For what still waits when the server stops.
    PATIENCE_AT_END = 1
    private_constant :MOST_AT_ONCE, :HEARTBEAT, :SHUTDOWN, :TICK, :PATIENCE_AT_END

    # More browsers than there may be.
    class Full < Error; end

    @all = {}
    @guard = Mutex.new

    class << self
      # The one of this process for these settings. Nothing is open before the first browser comes.
      def for(settings, options)
        forked if @pid && @pid != Process.pid
        @guard.synchronize do
          at_exit_of(@pid = Process.pid) unless @pid
          key = [settings, options]
          @all.delete(key) if @all[key]&.ended?
          @all[key] ||= new(settings, options)
        end
      end

      # In a child: the browsers are the parent's.
      def forked
        @guard = Mutex.new
        all = @all
        @all = {}
        @pid = nil
        all.each_value(&:abandon)
      end

      def close_all
        @guard.synchronize { @all.values }.each(&:close)
      end

      private

      def at_exit_of(pid)
        at_exit { close_all if Process.pid == pid }
      end
    end

    # Puma with fork_worker forks a process that has browsers: their connections must end with that one.
    module ForkHook
      def _fork
        super.tap { |pid| SSEFanout.forked if pid.zero? }
      end
    end
    Process.singleton_class.prepend(ForkHook)

    def initialize(settings, options)
      @settings = settings
      @listener = Listener.new(**options)
      @source = @listener.to_io
      @told, @tell = IO.pipe
      @lock = Mutex.new
      @streams = {}.compare_by_identity
      @members = {} # channel => its streams
      @idle = {} # channel => since when nobody wants it
      @tick = [TICK, settings.heartbeat / 2.0].min
      @looked = now
      @ended = false
      @rows = settings.rows && SSERows.new(settings.rows, @lock, @streams, flush: method(:nudge), log: method(:log),
                                                                           give_up: method(:give_up))
      @thread = Thread.new { run }
      @thread.name = 'pgwake sse'
    end

    def ended?
      @ended
    end

    # Returns once every notification committed from now on will reach the stream, and every row after its positions.
    # @param positions [Array<Integer>, nil] of the last row of each channel that the browser has
    # @raise [Refused, TimeoutError, Closed, Full]
    def enter(channels, timeout, positions = nil)
      till = now + timeout
      stream = register(channels, positions)
      missing = channels - @listener.channels
      @listener.subscribe(*missing, timeout: timeout) unless missing.empty?
      @rows&.place(stream, till - now)
      stream
    rescue StandardError
      @lock.synchronize { leave(stream) } if stream
      raise
    end

    # The response has begun.
    def attach(stream, io)
      @lock.synchronize do
        # One that was given up meanwhile: the browser comes again.
        return io.close unless @streams.key?(stream)

        stream.attach(io, now)
      end
      nudge
    end

    # Sends what still waits, as far as that goes in a second, and ends all responses.
    def close
      @closing = true
      nudge
      @thread.join(PATIENCE_AT_END + 2)
    end

    def abandon
      [*@streams.keys, @told, @tell].each(&:close)
      @ended = true
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def log(text)
      @settings.logger ? @settings.logger.warn(text) : warn(text)
    rescue StandardError
      nil # nobody takes it
    end

    # The browsers come again, to another one.
    def give_up
      @closing = true
      nudge
    end

    def nudge
      @tell.write_nonblock('.', exception: false)
    rescue IOError
      nil # it has ended
    end

    def register(channels, positions)
      @lock.synchronize do
        raise Closed, 'the server stops' if @ended || @closing
        raise Full, "#{@streams.size} browsers are here already" if @streams.size >= @settings.max_browsers

        stream = SSEStream.new(channels, @settings.max_unsent, now, positions)
        # Browsers that lost one server at the same moment come back one after another.
        stream.put("retry: #{(@settings.reconnect * rand(500..1500)).round}\n\n", now)
        @streams[stream] = true
        channels.each do |channel|
          (@members[channel] ||= {}.compare_by_identity)[stream] = true
          @idle.delete(channel)
        end
        stream
      end
    end

    def leave(stream)
      return unless @streams.delete(stream)

      stream.close
      stream.channels.each do |channel|
        rest = @members[channel]
        rest.delete(stream)
        next unless rest.empty?

        @members.delete(channel)
        @idle[channel] = now
      end
    end

    def run
      turn until @closing
      @lock.synchronize { finish }
    rescue StandardError => e
      log("pgwake: sse: #{e.full_message(highlight: false)}")
    ensure
      @lock.synchronize do
        @ended = true
        @rows&.close
        @streams.each_key(&:close)
        @streams.clear
      end
      @listener.close
    end

    def turn
      readable = wait_for_something
      events = readable[@source] ? @listener.drain(MOST_AT_ONCE) : []
      @lock.synchronize do
        @told.read_nonblock(1024, exception: false) if readable[@told]
        events.each { |event| hand_out(event) }
        look_after if now - @looked >= @tick
        @streams.each_key do |stream|
          leave(stream) if (readable[stream.io] && !stream.listen) || !stream.flush(now)
        end
        @rows&.look_again if @streams.any? { |stream, _| !stream.behind.empty? && stream.takes_rows? }
      end
    end

    # @return [Hash{IO => true}] what is readable
    def wait_for_something
      reading = [@source, @told]
      writing = []
      pause = nil
      @lock.synchronize do
        @streams.each_key do |stream|
          next unless stream.io

          reading << stream.io
          writing << stream.io if stream.unsent?
        end
        pause = [@looked + @tick - now, 0].max unless @streams.empty? && @idle.empty?
      end
      readable, = IO.select(reading, writing, nil, pause)
      {}.compare_by_identity.tap { |found| readable&.each { |io| found[io] = true } }
    end

    def hand_out(event)
      case event.kind
      when :wake
        streams = @members[event.channel] or return
        streams.each_key { |stream| @rows.fall_behind(stream, event.channel) } if @rows && event.payload.nil?
        return if @rows && event.payload.nil? && event.gap.nil?

        text, key = written(event)
        streams.each_key { |stream| put(stream, text, key) }
      when :refused
        log("pgwake: sse: #{event.channel} is refused now: #{event.reason}")
        @members.fetch(event.channel, {}).each_key { |stream| leave(stream) }
      end
    end

    def put(stream, text, key = nil)
      return if stream.put(text, now, key) || (stream.flush(now) && stream.put(text, now, key))

      log("pgwake: sse: a browser that does not read is dropped (#{stream.channels.first(3).join(', ')})")
      leave(stream)
    end

    # @return [Array(String, Object)] the message, and what makes another one of its kind needless while it waits
    def written(event)
      name = event.gap ? :resync : :wake
      data = { channel: event.channel.scrub }
      data[:cause] = event.gap if event.gap
      data[:payload] = event.payload.scrub if event.payload
      ["event: #{name}\ndata: #{JSON.generate(data)}\n\n", event.payload ? nil : [name, event.channel]]
    end

    def look_after
      @looked = now
      @streams.each_key do |stream|
        if stream.stalled?(now, @settings.write_timeout)
          log("pgwake: sse: a browser took nothing for #{@settings.write_timeout} s and is dropped") if stream.io
          leave(stream)
        elsif stream.quiet_for(now) >= @settings.heartbeat
          put(stream, HEARTBEAT)
        end
      end
      forget_idle
    end

    def forget_idle
      gone = @idle.select { |_, since| now - since >= @settings.linger }.keys
      gone.each do |channel|
        @idle.delete(channel)
        @listener.unsubscribe(channel)
      rescue Invalid
        nil # no name of a channel, and so never subscribed
      end
    end

    def finish
      till = now + PATIENCE_AT_END
      @streams.each_key { |stream| stream.put(SHUTDOWN, now) }
      loop do
        @streams.each_key { |stream| leave(stream) unless stream.flush(now) && stream.io && stream.unsent? }
        break if @streams.empty? || now >= till

        IO.select(nil, @streams.keys.map(&:io), nil, till - now)
      end
    end
  end
end

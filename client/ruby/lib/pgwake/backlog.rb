# frozen_string_literal: true

module Pgwake
  # Events that were read and not taken yet, by the library's own rules: wakes without payload that wait merge; one
  # state waits, the latest; payloads beyond the limit are discarded, and a gap says so.
  # @api private
  class Backlog
    MAX_BYTES = 64 << 20

    def initialize(max_bytes = MAX_BYTES)
      @max = max_bytes
      clear
    end

    def empty?
      @events.empty?
    end

    def first
      @events.first
    end

    def size
      @events.size
    end

    # One batch into an empty queue: nothing can merge that the library has not merged.
    def fill(events)
      @events.concat(events)
    end

    def push(event)
      if event.kind == :state
        @events.delete_if { |e| e.equal?(@state) } if @state
        @state = event
      elsif event.payload
        return unless room_for(event)
      elsif event.gap
        @durable.delete(event.channel)
      elsif event.kind == :wake
        return if merged(event)
      end
      @events << event
    end

    def shift
      event = @events.shift
      if @events.empty?
        clear
      elsif event.payload
        @bytes = [0, @bytes - bytes_of(event)].max
      elsif event.equal?(@state)
        @state = nil
      elsif event.gap == :overflow
        @overflowed.delete(event.channel)
      elsif @durable[event.channel].equal?(event)
        @durable.delete(event.channel)
      end
      event
    end

    # Drops the wakes of a channel.
    def forget(channel)
      @events.reject! { |e| e.kind == :wake && e.channel == channel }
      @durable.delete(channel)
      @overflowed.delete(channel)
      @bytes = @events.sum { |e| e.payload ? bytes_of(e) : 0 }
    end

    def clear
      @events = []
      @bytes = 0
      @durable = {}
      @overflowed = {}
      @state = nil
    end

    private

    def bytes_of(event)
      event.payload.bytesize + event.channel.bytesize
    end

    def room_for(event)
      if @bytes + bytes_of(event) <= @max
        @bytes += bytes_of(event)
        return true
      end
      unless @overflowed.key?(event.channel)
        @overflowed[event.channel] = true
        @durable.delete(event.channel)
        @events << Event.overflow(event.channel)
      end
      false
    end

    def merged(event)
      waiting = @durable[event.channel]
      if waiting
        waiting.pid = 0 if waiting.pid != event.pid
        return true
      end
      @durable[event.channel] = event
      false
    end
  end
end

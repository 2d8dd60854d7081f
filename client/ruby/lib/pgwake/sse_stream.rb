# frozen_string_literal: true

module Pgwake
  # One browser: what it has not been sent yet, and the socket once there is one. Its owner locks.
  # @api private
  class SSEStream
    # @return [Array<String>]
    attr_reader :channels
    # @return [IO, nil]
    attr_reader :io

    # @param most [Integer] bytes that may wait
    def initialize(channels, most, now)
      @channels = channels
      @most = most
      @since = now # of a step forward, or of its beginning
      @unsent = +''
      @wakes = {} # key => offset of its end in all that was ever put in
      @put = 0
      @last = now # when something was put in
      @io = nil
    end

    # @return [Numeric] seconds in which there was nothing to send
    def quiet_for(now)
      unsent? ? 0 : now - @last
    end

    def attach(io, now)
      @io = io
      @since = now
    end

    def unsent?
      !@unsent.empty?
    end

    # @param key [Object, nil] a message with the same key that waits makes this one needless
    # @return [Boolean] false: too much waits
    def put(text, now, key = nil)
      return true if key && @wakes.fetch(key, 0) > @put - @unsent.bytesize
      return false if @unsent.bytesize + text.bytesize > @most

      @since = now if @unsent.empty?
      @last = now
      @unsent << text
      @put += text.bytesize
      @wakes[key] = @put if key
      true
    end

    # Sends what the socket takes.
    # @return [Boolean] false: the browser has gone
    def flush(now)
      while @io && unsent?
        count = @io.write_nonblock(@unsent, exception: false)
        break if count == :wait_writable

        @since = now
        @unsent = @unsent.byteslice(count..)
      end
      true
    rescue SystemCallError, IOError
      false
    end

    # Something waits, and nothing was taken for so long.
    def stalled?(now, patience)
      (unsent? || @io.nil?) && now - @since > patience
    end

    # What a browser sends is of no interest, but for its end.
    # @return [Boolean] false: the browser has gone
    def listen
      case @io.read_nonblock(1024, exception: false)
      when nil then false
      else true
      end
    rescue SystemCallError, IOError
      false
    end

    def close
      @io&.close
    rescue SystemCallError, IOError
      nil
    end
  end
end

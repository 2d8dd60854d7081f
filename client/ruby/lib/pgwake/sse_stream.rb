# frozen_string_literal: true

require 'json'

module Pgwake
  # One browser: what it has not been sent yet, and the socket once there is one. Its owner locks.
  # @api private
  class SSEStream
    # @return [Array<String>]
    attr_reader :channels
    # @return [IO, nil]
    attr_reader :io
    # @return [Hash{String => Integer, nil}] the last row of each channel that was put in; nil: not known yet
    attr_reader :positions
    # @return [Hash{String => true}] channels whose rows must be read
    attr_reader :behind
    # @return [Symbol, nil] `:asks`: its positions are wanted; `:takes`: rows may be put in
    attr_accessor :stage

    # @param most [Integer] bytes that may wait
    # @param positions [Array<Integer>, nil] of the last row of each channel that the browser has
    def initialize(channels, most, now, positions = nil)
      @channels = channels
      @positions = channels.zip(positions || []).to_h
      @behind = {}
      @stage = nil
      @most = most
      @extra = 0 # what a row that is longer than may wait takes beyond the bound, until it is sent
      @full = false # a row was refused: the next one when nothing waits any more
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
    # @param alone [Boolean] where nothing waits, it may be of any length
    # @return [Boolean] false: too much waits
    def put(text, now, key = nil, alone: false)
      return true if key && @wakes.fetch(key, 0) > @put - @unsent.bytesize

      @extra = alone && text.bytesize > @most ? text.bytesize : 0 if @unsent.empty?
      return false if @unsent.bytesize + text.bytesize > @most + @extra

      @since = now if @unsent.empty?
      @last = now
      @unsent << text
      @put += text.bytesize
      @wakes[key] = @put if key
      true
    end

    # Only while little waits: the rest is for wakes, so that who catches up is not taken for one that does not read.
    def takes_rows?
      @stage == :takes && (@full ? @unsent.empty? : @unsent.bytesize <= @most / 2)
    end

    def placed?
      @positions.none? { |_, at| at.nil? }
    end

    def begin_rows(now)
      @stage = :takes
      put("id: #{event_id}\nevent: start\ndata: #{JSON.generate({ id: event_id })}\n\n", now)
    end

    # @return [String] what a browser sends as Last-Event-ID
    def event_id
      @positions.values.join(',')
    end

    # @return [Boolean] false: too much waits
    def put_row(channel, id, text, now)
      return false unless takes_rows?

      before = @positions[channel]
      @positions[channel] = id
      @full = !put("id: #{event_id}\n#{text}", now, alone: true)
      @positions[channel] = before if @full
      !@full
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

# frozen_string_literal: true

require 'json'

module Pgwake
  # Reads the rows behind the channels for all browsers of a process, in one thread. A stream has a position in each of its
  # channels, and is behind where a wake has come since its last read. All streams that are behind in a channel are served
  # by one read from the position of the rearmost; where that one has much to catch up with, the others do not wait for it.
  # @api private
  class SSERows
    # Rows of one read; those for which a browser has no room are read again.
    AT_ONCE = 100
    # Seconds until what failed is tried again.
    PAUSE = 0.5
    private_constant :AT_ONCE, :PAUSE

    # @param source [#newest, #after] see client/ruby/README.md
    # @param streams [Hash{SSEStream => true}] those of the fan-out, whose lock this is
    # @param flush [#call] streams have something to send
    # @param log [#call]
    # @param give_up [#call] no rows are read any more
    def initialize(source, lock, streams, flush:, log:, give_up:)
      @source = source
      @lock = lock
      @streams = streams
      @flush = flush
      @log = log
      @give_up = give_up
      @changed = ConditionVariable.new
      @placed = ConditionVariable.new
      @not_before = 0
      @ended = false
      @thread = Thread.new { run }
      @thread.name = 'pgwake sse rows'
    end

    # The stream's channels are subscribed: from now on it is owed all rows behind its position, which is the newest row
    # where the browser names none.
    # @raise [TimeoutError, Closed]
    def place(stream, timeout)
      till = now + timeout
      @lock.synchronize do
        stream.stage = :asks
        fall_behind(stream, *stream.channels)
        until stream.placed?
          raise Closed, 'the server stops' if @ended || !@streams.key?(stream)
          raise TimeoutError, 'the newest row could not be read within the deadline' if now >= till

          @placed.wait(@lock, till - now)
        end
        stream.begin_rows(now)
        @changed.signal
      end
    end

    # The owner has the lock, here and below.
    def fall_behind(stream, *channels)
      channels.each { |channel| stream.behind[channel] = true }
      @changed.signal
    end

    # A stream has room again.
    def look_again
      @changed.signal
    end

    def close
      @ended = true
      @changed.broadcast
      @placed.broadcast
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def run
      while (plan = wait_for_plan)
        plan.each { |channel, after| after ? read(channel, after) : find_newest(channel) }
      end
    ensure
      # Or the browsers would wait for rows that nobody reads.
      @give_up.call unless @ended
    end

    # @return [Array<Array(String, Integer)>, nil] channels to be read, each with where to begin (nil: find the newest
    #   row); nil: the end
    def wait_for_plan
      @lock.synchronize do
        until @ended
          pause = @not_before - now
          found = pause.positive? ? [] : plan
          return found unless found.empty?

          @changed.wait(@lock, pause.positive? ? pause : nil)
        end
      end
    end

    def plan
      positions = {}
      @streams.each_key do |stream|
        stream.behind.each_key do |channel|
          at = stream.positions[channel]
          (positions[channel] ||= {})[at] = true if at ? stream.takes_rows? : stream.stage == :asks
        end
      end
      positions.flat_map do |channel, found|
        numbers = found.keys.compact
        ends = numbers.minmax.uniq.compact
        (found.key?(nil) ? [nil, *ends] : ends).map { |at| [channel, at] }
      end
    end

    def find_newest(channel)
      asks = ->(stream) { stream.stage == :asks && stream.behind[channel] && stream.positions[channel].nil? }
      streams = @lock.synchronize { @streams.keys.select(&asks) }
      newest = attempt(channel) { Integer(@source.newest(channel) || 0) } or return
      @lock.synchronize do
        streams.each { |stream| stream.positions[channel] = newest }
        @placed.broadcast
      end
    end

    def read(channel, after)
      streams = @lock.synchronize { take(channel, after) }
      return if streams.empty?

      rows = attempt(channel) { written(channel, @source.after(channel, after, AT_ONCE).first(AT_ONCE)) }
      @lock.synchronize do
        # The last row of a full read is not the last one there is.
        left = rows ? hand_out(streams, channel, rows, more: rows.size == AT_ONCE) : streams
        left.each { |stream| stream.behind[channel] = true }
      end
      @flush.call
    end

    # A wake that comes from now on is for another read.
    def take(channel, after)
      @streams.keys.select do |stream|
        at = stream.positions[channel]
        stream.behind.delete(channel) if at && at >= after && stream.takes_rows?
      end
    end

    # @return [Array<Array(Integer, String)>]
    def written(channel, rows)
      rows.map do |id, payload|
        payload = payload.scrub if payload.is_a?(String)
        data = JSON.generate({ channel: channel.scrub, id: Integer(id), payload: payload })
        [Integer(id), "event: row\ndata: #{data}\n\n"]
      end
    end

    # One that has no room keeps its position, and is served once it has.
    # @return [Array<SSEStream>] those that are still behind
    def hand_out(streams, channel, rows, more:)
      streams.select do |stream|
        next unless @streams.key?(stream)

        !rows.all? { |id, text| id <= stream.positions[channel] || stream.put_row(channel, id, text, now) } || more
      end
    end

    # @return what the block answers; nil: it failed
    def attempt(channel)
      yield
    rescue StandardError, ScriptError => e
      @log.call("pgwake: sse: the rows of #{channel} cannot be read: #{e.message.strip}")
      @not_before = now + PAUSE
      nil
    end
  end
end

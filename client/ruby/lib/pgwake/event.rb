# frozen_string_literal: true

module Pgwake
  # One event: a wake of a channel, or a change of who serves.
  class Event
    KINDS = [nil, :wake, :state, :refused, :subscribed].freeze
    SOURCES = %i[none hub own].freeze
    GAPS = [nil, :reconnect, :hub_lost, :overflow, :forked].freeze
    # struct pgwake_record of pgwake.h
    RECORD = 'Ll4LlL3Q'
    HEADER = 48
    private_constant :KINDS, :SOURCES, :GAPS, :RECORD, :HEADER

    # @return [Symbol] `:wake`; `:state`: who serves, or how well, has changed; `:refused`: a channel that was
    #   subscribed is refused now
    attr_reader :kind
    # @return [Symbol] `:hub`, `:own` or `:none`: where it came from; of a state, who serves now
    attr_reader :source
    # @return [Symbol, nil] why notifications on this channel may have been missed: `:reconnect`, `:hub_lost`,
    #   `:overflow`, `:forked`
    attr_reader :gap
    # @return [Integer] process id of the backend that notified; 0: unknown or several
    attr_accessor :pid
    # @return [String]
    attr_reader :channel
    # @return [String, nil] as UTF-8, which its bytes need not be (`valid_encoding?`); nil: there is none
    attr_reader :payload
    # @return [String] of a state or a refusal, for people
    attr_reader :reason
    # @api private
    attr_reader :id, :result

    # @api private

    # @api private
    def initialize(kind, source, gap, pid, healthy, channel, payload, reason, id, result)
      @kind = kind
      @source = source
      @gap = gap
      @pid = pid
      @healthy = healthy
      @channel = channel
      @payload = payload
      @reason = reason
      @id = id
      @result = result
    end

    # @return [Boolean] of a state: everything subscribed is being served
    def healthy?
      @healthy
    end

    # @return [Boolean] a wake without payload, or a gap: read again whatever the channel stands for
    def read_again?
      @payload.nil? && @kind == :wake
    end

    def inspect
      parts = [@kind, @channel.empty? ? nil : @channel.inspect, @payload && "payload of #{@payload.bytesize} bytes",
               @gap && "gap=#{@gap}", @kind == :state ? "source=#{@source} healthy=#{@healthy}" : nil,
               @reason.empty? ? nil : "reason=#{@reason.inspect}"]
      "#<Pgwake::Event #{parts.compact.join(' ')}>"
    end

    class << self
      # @api private
      # The gap that stands for payloads that were thrown away.
      def overflow(channel)
        new(:wake, :none, :overflow, 0, false, channel, nil, '', 0, 0)
      end

      # @api private
      # The events in what pgwake_read() has filled.
      def unpack(bytes)
        out = []
        at = 0
        while at < bytes.bytesize
          size, kind, source, gap, pid, flags, result, n, m, k, id = bytes.unpack(RECORD, offset: at)
          start = at + HEADER
          channel = text(bytes, start, n)
          payload = flags.anybits?(1) ? text(bytes, start + n + 1, m) : nil
          reason = k.zero? ? '' : text(bytes, start + n + m + 2, k)
          out << new(KINDS[kind], SOURCES[source], gap.zero? ? nil : GAPS[gap] || :reconnect, pid, flags.anybits?(2),
                     channel, payload, reason, id, result)
          at += size
        end
        out
      end

      private

      def text(bytes, at, size)
        bytes.byteslice(at, size).force_encoding(Encoding::UTF_8)
      end
    end
  end

  # A snapshot, as pgwake_state of pgwake.h.
  State = Struct.new(:source, :healthy, :handing_over, :own_slot, :channels, :waiting, :waiting_bytes, :wakes, :coalesced,
                     :discarded, :gaps, :falls, :handovers, :handovers_aborted, :hub_connects, :own_connects, :reason,
                     :hub, keyword_init: true)
end

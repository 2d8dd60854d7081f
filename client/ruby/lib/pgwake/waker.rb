# frozen_string_literal: true

module Pgwake
  # For programs that look for work now and then, and would rather be told: a notification on one of the channels, or one
  # that may have been missed.
  #
  #     waker = Pgwake::Waker.new('jobs')
  #     loop do
  #       nil while work_one_job
  #       waker.wait(30)
  #     end
  #
  # Without hub and database {#wait} only sleeps, so the program goes on looking every now and then.
  class Waker
    # @param options those of {Listener#initialize}
    def initialize(*channels, **options)
      @channels = channels.map { |channel| Listener.key_of(channel) }
      @listener = Listener.new(**options)
    end

    # The first call that gets through to listening answers true at once, for what was committed before.
    #
    # @param timeout [Numeric, nil] seconds; nil: for ever
    # @return [Boolean] true: look for work; what was announced until now is done with that. false: the timeout has passed
    # @raise [Refused]
    def wait(timeout = nil)
      return first_wait(timeout) unless (@channels - @listener.channels).empty?

      till = timeout && (now + timeout)
      while (event = @listener.next(timeout: till && [till - now, 0].max))
        next unless event.kind == :wake

        @listener.drain
        return true
      end
      false
    end

    # A wait elsewhere raises {Closed}.
    def close
      @listener.close
    end

    private

    def first_wait(timeout)
      @listener.subscribe(*@channels, timeout: timeout)
      @listener.drain
      true
    rescue TimeoutError
      false
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end

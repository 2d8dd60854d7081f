# frozen_string_literal: true

module Pgwake
  # A call of the library failed. All other errors of this library derive from it.
  class Error < StandardError; end

  # libpgwake was not found, or is too old.
  class LibraryMissing < Error; end

  # A channel was refused, and will be again.
  class Refused < Error
    # @return [String]
    attr_reader :channel
    # @return [String] the hub's, such as "forbidden" or "invalid_channel"
    attr_reader :code

    def initialize(channel, reason)
      super("#{channel}: #{reason}")
      @channel = channel
      @code = reason[/\A[^:]*/]
    end
  end

  # Not within the deadline; what was asked for is not so.
  class TimeoutError < Error; end

  # The listener was closed, or the channel was unsubscribed meanwhile.
  class Closed < Error; end

  # An argument or a setting makes no sense.
  class Invalid < Error; end

  # The listener was opened by the parent process, and `reopen: :manual` was asked for.
  class Forked < Error; end
end

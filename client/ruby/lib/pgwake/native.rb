# frozen_string_literal: true

require 'fiddle'

module Pgwake
  # libpgwake through Fiddle.
  # @api private
  module Native
    OK = 0
    TIMEOUT = -1
    NACK = -2
    FORKED = -3
    CLOSED = -4
    INVALID = -6
    SYSTEM = -7

    POINTER = Fiddle::TYPE_VOIDP
    INT = Fiddle::TYPE_INT
    SIZE = Fiddle::TYPE_SIZE_T
    private_constant :POINTER, :INT, :SIZE

    # name => arguments, answer, whether it may wait. Those that never do keep the interpreter's lock.
    FUNCTIONS = {
      options_new: [[], POINTER, false],
      options_free: [[POINTER], Fiddle::TYPE_VOID, false],
      options_set: [[POINTER, POINTER, POINTER], INT, false],
      options_ignore_environment: [[POINTER], INT, false],
      open: [[POINTER, POINTER], INT, true],
      close: [[POINTER], Fiddle::TYPE_VOID, true],
      shutdown: [[POINTER], INT, false],
      reopen: [[POINTER], INT, true],
      reopen_subscribed: [[POINTER], INT, true],
      subscribe_start: [[POINTER, POINTER, SIZE, INT, Fiddle::TYPE_LONG_LONG], INT, false],
      unsubscribe: [[POINTER, POINTER], INT, false],
      fd: [[POINTER], INT, false],
      read: [[POINTER, POINTER, SIZE, POINTER, SIZE, INT], INT, false],
      state_json: [[POINTER, POINTER, SIZE], INT, false],
      last_error: [[], POINTER, false]
    }.freeze
    private_constant :FUNCTIONS

    @loading = Mutex.new

    class << self
      # Calls pgwake_NAME.
      def call(name, *arguments)
        (@functions || load_library).fetch(name).call(*arguments)
      end

      # @return [String] what this thread's last call that failed had to say
      def why
        call(:last_error).to_s.force_encoding(Encoding::UTF_8).scrub
      end

      # @return [Error] for a result that is not OK
      def error(result, why, channel = nil)
        return Refused.new(channel.to_s, why) if result == NACK

        kind = { TIMEOUT => TimeoutError, FORKED => Forked, CLOSED => Closed, INVALID => Invalid }.fetch(result, Error)
        kind.new(channel ? "#{channel}: #{why}" : why)
      end

      # @raise [Error] if the result is one
      def check(result)
        raise error(result, why) if result.negative?

        result
      end

      private

      # At the first use: what LIBPGWAKE names, else libpgwake.so.1.
      def load_library
        @loading.synchronize do
          @functions ||= begin
            path = ENV.fetch('LIBPGWAKE', '')
            functions_of(path.empty? ? 'libpgwake.so.1' : path)
          end
        end
      end

      def functions_of(path)
        begin
          @library = Fiddle.dlopen(path)
        rescue Fiddle::DLError => e
          raise LibraryMissing, "libpgwake cannot be loaded: #{e.message}. Install the package libpgwake1 " \
                                '(apt install libpgwake1), or name the library in the variable LIBPGWAKE'
        end
        FUNCTIONS.to_h do |name, (arguments, answer, waits)|
          [name, Fiddle::Function.new(@library["pgwake_#{name}"], arguments, answer, need_gvl: !waits)]
        end
      rescue Fiddle::DLError => e
        raise LibraryMissing, "#{path} is too old: #{e.message}. Upgrade the package libpgwake1"
      end
    end
  end
end

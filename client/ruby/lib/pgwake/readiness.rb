# frozen_string_literal: true

require 'fiddle'

module Pgwake
  # An IO that is readable while a descriptor is, or while it was told to be: an epoll instance over both.
  # @api private
  class Readiness
    ADD = 1
    IN = 1
    # struct epoll_event is packed on x86-64 alone.
    EVENT = RUBY_PLATFORM.start_with?('x86_64') ? 'LQ' : 'Lx4Q'
    private_constant :ADD, :IN, :EVENT

    attr_reader :io

    def initialize(descriptor)
      int = Fiddle::TYPE_INT
      libc = Fiddle.dlopen(nil)
      create = Fiddle::Function.new(libc['epoll_create1'], [int], int)
      control = Fiddle::Function.new(libc['epoll_ctl'], [int, int, int, Fiddle::TYPE_VOIDP], int)
      number = create.call(0o2000000) # EPOLL_CLOEXEC
      raise Error, 'epoll_create1 failed' if number.negative?

      @io = IO.for_fd(number, autoclose: true)
      @out, @in = IO.pipe
      [descriptor, @out.fileno].each do |fd|
        raise Error, 'epoll_ctl failed' unless control.call(number, ADD, fd, [IN, 0].pack(EVENT)).zero?
      end
      @told = false
    end

    def tell(readable)
      @in.write_nonblock('1') if readable && !@told
      @out.read_nonblock(1) if @told && !readable
      @told = readable
    end

    def close
      [@io, @in, @out].each(&:close)
    end
  end
end

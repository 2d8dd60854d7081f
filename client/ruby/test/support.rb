# frozen_string_literal: true

require 'minitest/autorun'
require 'json'
require 'pgwake'

# The rig of tests/bindings, in a process of its own: a PostgreSQL, and hubs that are told apart by number.
module Rig
  PROGRAM = File.expand_path('../../../tests/bindings/serve-rig', __dir__)

  class << self
    def ask(what, **arguments)
      @pipe ||= IO.popen(['/usr/bin/python3', PROGRAM], 'r+').tap { |pipe| close_at_end(pipe) }
      @pipe.puts(JSON.generate(do: what, **arguments))
      answer = JSON.parse(@pipe.gets || raise('the rig has ended'))
      raise answer['error'] if answer['error']

      answer['is']
    end

    private

    def close_at_end(pipe)
      owner = Process.pid
      Minitest.after_run { pipe.close if Process.pid == owner }
    end
  end

  # A database and a hub on it.
  class Host
    def initialize(*arguments, encoding: 'UTF8')
      @number = Rig.ask('host', arguments: arguments, encoding: encoding)
    end

    def options(**more)
      Rig.ask('options', host: @number).transform_keys(&:to_sym).merge(more)
    end

    def notify(channel, payload = nil)
      Rig.ask('notify', host: @number, channel: channel, payload: payload)
    end

    def sql(statement)
      Rig.ask('sql', host: @number, statement: statement)
    end

    %w[terminate census].each do |what|
      define_method(what) { |like| Rig.ask(what, host: @number, like: like) }
    end

    %w[kill stop start close].each do |what|
      define_method(what) { Rig.ask(what, host: @number) }
    end
  end
end

# Nobody to talk to: reminders come by the policy.
NOWHERE = { socket: '/nonexistent/pgwake.sock', policy: :poll, poll_interval: '20ms' }.freeze

module Helpers
  def eventually(patience = 60)
    till = Process.clock_gettime(Process::CLOCK_MONOTONIC) + patience
    until yield
      return false if Process.clock_gettime(Process::CLOCK_MONOTONIC) > till

      sleep(0.01)
    end
    true
  end

  def seconds
    from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - from
  end

  # The next wake of this listener.
  def wake(listener, timeout = 60)
    loop do
      event = listener.next(timeout: timeout) or flunk('no wake came')
      return event if event.kind == :wake
    end
  end

  # Forks; the child's exit code: what the block answers, 98 if it raises.
  def in_child
    pid = fork do
      code = 98
      code = yield
    rescue StandardError => e
      warn(e.full_message)
    ensure
      exit!(code)
    end
    Process.wait2(pid)[1].exitstatus
  end
end

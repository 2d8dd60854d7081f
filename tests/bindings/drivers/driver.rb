# frozen_string_literal: true

# The driver of the Ruby face: the lines of tests/bindings/README.md, obeyed with Pgwake::Listener.

$LOAD_PATH.unshift(File.expand_path('../../../client/ruby/lib', __dir__))
require 'json'
require 'pgwake'

ERRORS = {
  Pgwake::Refused => 'refused', Pgwake::TimeoutError => 'timeout', Pgwake::Closed => 'closed',
  Pgwake::Invalid => 'invalid', Pgwake::Forked => 'forked'
}.freeze

def decoded(word)
  word.b.gsub(/%(..)/n) { Regexp.last_match(1).hex.chr }.force_encoding(Encoding::UTF_8)
end

def encoded(text)
  text.b.gsub(/[^ -~]|["\\%]/n) { |byte| format('%%%02X', byte.ord) }.force_encoding(Encoding::UTF_8)
end

def shown(event)
  { kind: event.kind, source: event.source, gap: event.gap || '', by: event.pid, channel: encoded(event.channel),
    payload: event.payload && encoded(event.payload), reason: encoded(event.reason), healthy: event.healthy?,
    utf8: [event.channel, event.payload || ''].all?(&:valid_encoding?) }
end

def seconds(milliseconds)
  milliseconds.to_i.negative? ? nil : milliseconds.to_i / 1000.0
end

def failure(error)
  said = { error: ERRORS.fetch(error.class, error.class.name), text: encoded(error.message) }
  said.update(code: error.code, channel: encoded(error.channel)) if error.is_a?(Pgwake::Refused)
  said
end

# The requests about one listener.
class Driver
  def initialize
    @listeners = {}
    @threads = {}
  end

  def obey(verb, *words)
    case verb
    when 'fork' then fork_now
    when 'exit' then exit!(0)
    when 'signals' then trap('USR1') { say({ signal: true }) } && { is: true }
    else
      { is: about_listener(verb, *words) }
    end
  rescue Pgwake::Error => e
    failure(e)
  end

  private

  def fork_now
    child = fork
    return { is: true } unless child

    { is: 'ended', status: Process.wait2(child)[1].to_i }
  end

  def about_listener(verb, name, *words)
    return open_listener(name, words) if verb == 'open'

    __send__("do_#{verb}", @listeners.fetch(name), *words)
  end

  def open_listener(name, words)
    options = words.to_h { |word| word.split('=', 2) }.transform_keys(&:to_sym)
    options[:reopen] = options[:reopen].to_sym if options[:reopen]
    options[:ignore_environment] = options[:ignore_environment] == 'on' if options[:ignore_environment]
    @listeners[name] = Pgwake::Listener.open(**options)
    true
  end

  def do_subscribe(listener, timeout, *channels)
    listener.subscribe(*channels, timeout: seconds(timeout))
    true
  end

  def do_unsubscribe(listener, *channels)
    listener.unsubscribe(*channels)
    true
  end

  def do_next(listener, timeout)
    event = listener.next(timeout: seconds(timeout))
    event && shown(event)
  end

  def do_read(listener, most)
    listener.drain(most.to_i).map { |event| shown(event) }
  end

  def do_readable(listener, timeout)
    !IO.select([listener], nil, nil, seconds(timeout)).nil?
  end

  def do_state(listener)
    listener.state.to_h
  end

  def do_reopen(listener)
    listener.reopen
    true
  end

  def do_shutdown(listener)
    listener.close
    true
  end
  alias do_close do_shutdown

  def do_thread(listener)
    @threads[listener] = Thread.new do
      loop { listener.next }
    rescue Pgwake::Error => e
      e
    end
    true
  end

  def do_join(listener)
    raise @threads.delete(listener).value
  end
end

def say(answer)
  $stdout.syswrite("#{JSON.generate(answer)}\n")
end

driver = Driver.new
while (line = $stdin.gets)
  say(driver.obey(*JSON.parse(line).map { |word| decoded(word) }))
end

# frozen_string_literal: true

require 'json'
require 'socket'
require 'tmpdir'
require_relative 'support'

# Puma with sse.ru, on a port of its own.
class Server
  RU = File.expand_path('sse.ru', __dir__)
  LIB = File.expand_path('../lib', __dir__)
  COMMANDS = {
    'puma' => ->(port) { ['puma', '-w', '2', '-t', '1:5', '-b', "tcp://127.0.0.1:#{port}"] },
    'puma-preload' => ->(port) { ['puma', '-w', '2', '--preload', '-t', '1:5', '-b', "tcp://127.0.0.1:#{port}"] },
    'puma-single' => ->(port) { ['puma', '-t', '1:5', '-b', "tcp://127.0.0.1:#{port}"] }
  }.freeze
  WORKERS = Hash.new(2).update('puma-single' => 1).freeze

  attr_reader :pid, :port

  def initialize(kind, options)
    @port = TCPServer.open('127.0.0.1', 0) { |s| s.addr[1] }
    @log = Tempfile.new('pgwake-sse')
    environment = { 'SSE_OPTIONS' => JSON.generate(options), 'RUBYLIB' => LIB, 'RACK_ENV' => 'production' }
    @pid = Process.spawn(environment, *COMMANDS.fetch(kind)[@port], RU, %i[out err] => @log.path, pgroup: true)
    seen = {}
    ready = Server.eventually(30) { answers? { |worker| seen[worker] = true } && seen.size == WORKERS[kind] }
    raise "#{kind} does not start: #{log}" unless ready
  end

  def self.eventually(patience, &)
    Object.new.extend(Helpers).eventually(patience, &)
  end

  def answers?
    raise "the server has ended: #{log}" if @pid.nil? || Process.wait(@pid, Process::WNOHANG)

    b = Browser.new(@port, '/pid')
    yield b.body if block_given?
    b.status == 200
  rescue SystemCallError
    false
  end

  def log
    File.read(@log.path)
  end

  # @return [Array<Integer>] the processes that serve
  def workers
    own = File.read("/proc/#{@pid}/task/#{@pid}/children").split.map(&:to_i)
    own.flat_map { |pid| [pid, *File.read("/proc/#{pid}/task/#{pid}/children").split.map(&:to_i)] }
  end

  def signal(name)
    Process.kill(name, @pid)
  end

  # @return [Process::Status]
  def wait(patience = 20)
    status = nil
    Server.eventually(patience) { status ||= Process.wait2(@pid, Process::WNOHANG)&.last }
    @pid = nil if status
    status
  end

  def close
    return unless @pid

    signal(:TERM)
    return if wait(10)

    Process.kill(:KILL, -@pid)
    wait
  end
end

# A plain HTTP client of an event stream.
class Browser
  attr_reader :status, :headers, :comments, :retry_after, :last_id

  def initialize(port, path, channels = [], method: 'GET', receive: nil)
    @socket = Socket.new(:INET, :STREAM)
    @socket.setsockopt(:SOCKET, :RCVBUF, receive) if receive
    @socket.connect(Socket.sockaddr_in(port, '127.0.0.1'))
    query = channels.map { |c| "channel=#{c}" }.join('&')
    @socket.write("#{method} #{path}?#{query} HTTP/1.1\r\nHost: x\r\n#{"Connection: close\r\n" if query.empty?}\r\n")
    @buffer = +''
    @comments = 0
    head = till("\r\n\r\n", 30) or raise 'no answer'
    @status = head[/\AHTTP\S+ (\d+)/, 1].to_i
    @headers = head.scan(/^([^:\r\n]+): (.*)\r$/).to_h.transform_keys(&:downcase)
  end

  # It was told that the server ends.
  def warned?
    @warned
  end

  # @return [Array, Symbol, nil] name and data; :end; nil: nothing came
  def event(patience = 20)
    limit = now + patience
    while (text = till("\n\n", limit - now))
      return :end if text == :end

      case text
      when /\A:/ then @comments += 1
      when /\Aretry: (\d+)/ then @retry_after = Regexp.last_match(1).to_i
      when /\Aevent: shutdown/ then @warned = true
      else
        id, name, data = text.match(/\A(?:id: (\S+)\n)?event: (\w+)\ndata: (.*)\n\n\z/m).captures
        @last_id = id if id
        return [name, JSON.parse(data)]
      end
    end
  end

  def events(count)
    Array.new(count) { event }
  end

  # Of an answer that is no stream.
  def body
    till("\r\n", 0.01)
    @buffer
  end

  def close
    @socket.close
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Up to and with the mark.
  def till(mark, patience)
    limit = now + patience
    until (at = @buffer.index(mark))
      left = limit - now
      return nil if left <= 0 || !@socket.wait_readable(left)

      begin
        @buffer << @socket.readpartial(65_536).force_encoding(Encoding::UTF_8)
      rescue EOFError, Errno::ECONNRESET
        return :end
      end
    end
    @buffer.slice!(0, at + mark.size)
  end
end

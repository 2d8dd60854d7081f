# frozen_string_literal: true

require 'pgwake/sse_fanout'

module Pgwake
  # A Rack application that streams channels to browsers as Server-Sent Events: see client/ruby/README.md.
  #
  #     # config.ru
  #     require 'pgwake/sse'
  #     map('/events') { run Pgwake.sse('orders') }
  #
  # It needs a server with `rack.hijack`, such as Puma, and no thread of the server for a browser.
  class SSE
    HEADERS = {
      'content-type' => 'text/event-stream',
      'cache-control' => 'no-cache',
      'connection' => 'close', # the response ends with the connection
      'x-accel-buffering' => 'no' # nginx
    }.freeze
    STATUS = Hash.new(403).update('limit' => 503, 'invalid_channel' => 400).freeze
    # Not an array, whose length Rack::ContentLength would announce.
    EMPTY = [].each.freeze
    private_constant :HEADERS, :STATUS, :EMPTY

    # With a block, that chooses the channels for a request: `{ |env| ["user.#{...}"] }`; nil or none: 403.
    #
    # @param heartbeat [Numeric] seconds of silence until a comment is sent
    # @param write_timeout [Numeric] seconds in which a browser must take something of what waits for it
    # @param max_unsent [Integer] bytes that may wait for a browser beyond what the kernel holds
    # @param linger [Numeric] seconds a channel stays subscribed after its last browser
    # @param reconnect [Numeric] about so many seconds a browser waits before it comes again
    # @param subscribe_timeout [Numeric] seconds; then 503
    # @param max_browsers [Integer] of a process; then 503
    # @param rows [#newest, #after, nil] reads the rows that the channels' wakes announce: see client/ruby/README.md
    # @param logger [#warn, nil] nil: standard error
    # @param options those of {Listener#initialize}
    def initialize(*channels, heartbeat: 15, write_timeout: 30, max_unsent: 1 << 20, linger: 30, reconnect: 2,
                   subscribe_timeout: 10, max_browsers: 10_000, rows: nil, logger: nil, **options, &choose)
      raise ArgumentError, 'name channels, or give a block that does' if channels.empty? == choose.nil?

      @channels = channels
      @choose = choose
      @timeout = subscribe_timeout
      @settings = SSEFanout::Settings.new(heartbeat:, write_timeout:, max_unsent:, linger:, max_browsers:, reconnect:,
                                          logger:, rows:).freeze
      @options = { name: 'sse', **options }.freeze
    end

    def call(env)
      return refuse(405, 'GET is the only method here', 'allow' => 'GET') unless env['REQUEST_METHOD'] == 'GET'
      return refuse(501, 'this server does not hand over the connection (rack.hijack)') unless can_hijack?(env)

      channels = chosen(env)
      return refuse(403, 'no channel is yours') if channels.empty?

      stream(channels, positions(env, channels))
    rescue Refused => e
      refuse(STATUS[e.code], e.message)
    rescue Invalid => e
      refuse(400, e.message)
    rescue TimeoutError, Closed, SSEFanout::Full => e
      refuse(503, e.message, 'retry-after' => @settings.reconnect.ceil.to_s)
    end

    private

    # A block may take names from the request, and that may hold anything.
    def chosen(env)
      channels = Array(@choose ? @choose.call(env) : @channels)
      raise Invalid, "#{channels.grep_v(String).first.inspect} is not the name of a channel" unless channels.all?(String)

      channels.map { |channel| Listener.key_of(channel) }.uniq
    end

    # Of the last event that the browser has; nil: it has none, or what it says is none of ours. A page that was loaded anew
    # cannot set the header.
    def positions(env, channels)
      return unless @settings.rows

      said = env['HTTP_LAST_EVENT_ID'] || env['QUERY_STRING'].to_s[/(?:\A|&)last_event_id=([^&]*)/, 1].to_s.gsub(/%2c/i, ',')
      return unless said.b.match?(/\A\d{1,19}(,\d{1,19})*\z/)

      numbers = said.split(',').map(&:to_i)
      numbers if numbers.size == channels.size && numbers.all? { |number| number < 1 << 63 }
    end

    def stream(channels, positions)
      fanout = SSEFanout.for(@settings, @options)
      stream = fanout.enter(channels, @timeout, positions)
      [200, { **HEADERS, 'rack.hijack' => ->(io) { begin_stream(fanout, stream, io) } }, EMPTY]
    end

    def begin_stream(fanout, stream, io)
      return fanout.attach(stream, io) if io.is_a?(IO)

      warn("pgwake: sse: a #{io.class} is not a socket that can be waited for. With rackup, start it with -E deployment.")
      io.close
    end

    # A write to a TLS connection of Puma's own blocks, and Unicorn ends a response that was given away.
    def can_hijack?(env)
      env['rack.hijack?'] && (!env.key?('puma.socket') || env['puma.socket'].is_a?(IO)) &&
        !env['SERVER_SOFTWARE'].to_s.start_with?('Unicorn')
    end

    def refuse(status, why, **more)
      [status, { 'content-type' => 'text/plain', **more }, ["#{why}\n"]]
    end
  end

  # @return [#call] a Rack application: {SSE#initialize}
  def self.sse(...)
    SSE.new(...)
  end
end

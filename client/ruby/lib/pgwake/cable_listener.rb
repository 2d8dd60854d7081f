# frozen_string_literal: true

require 'action_cable'
require 'action_cable/subscription_adapter/subscriber_map'

module Pgwake
  # Who has subscribed to what in one process of Action Cable. One thread subscribes, in the order of what was asked for;
  # another takes events. Subscribers are called in Rails' own threads.
  # @api private
  class CableListener < ActionCable::SubscriptionAdapter::SubscriberMap
    MOST_AT_ONCE = 1000
    private_constant :MOST_AT_ONCE

    # @return [Integer] the process that opened it
    attr_reader :pid

    # @param post [#call] runs a block in Rails' threads
    def initialize(options, post, logger)
      super()
      @post = post
      @logger = logger
      @pid = Process.pid
      @wanted = Queue.new
      @waiting = {} # channel => who waits until it is active
      @active = {}
      @listener = Listener.new(**options)
      @threads = { 'subscribes' => :follow, 'listens' => :listen }.map { |name, job| thread(name, job) }
    end

    # Rails' own confirms the second subscriber of a channel even if it is not active yet.
    def add_subscriber(channel, subscriber, on_success)
      super(channel, subscriber, on_success && -> { confirm(channel, on_success) })
    end

    def add_channel(channel, on_success)
      want(true, channel, @waiting[channel] = [])
      on_success&.call
    end

    def remove_channel(channel)
      @waiting.delete(channel)
      @active.delete(channel)
      want(false, channel)
    end

    def invoke_callback(callback, message)
      @post.call { callback.call(message) }
    end

    def shutdown
      @sync.synchronize { @wanted.close }
      @listener.close
      @threads.each(&:join)
    end

    private

    # Connections may end after the shutdown.
    def want(*what)
      @wanted.push(what) unless @wanted.closed?
    end

    def confirm(channel, on_success)
      @active[channel] ? @post.call(&on_success) : @waiting[channel] << on_success
    end

    def thread(name, job)
      Thread.new do
        Thread.current.name = "pgwake Action Cable #{name}"
        begin
          send(job)
        rescue Closed
          nil
        rescue StandardError => e
          @logger.error("pgwake: Action Cable: #{e.full_message(highlight: false)}")
          sleep(1) # whatever it is, it may be so again at once
          retry
        end
      end
    end

    # What is wanted, in order; subscribes that follow each other with one call.
    def follow
      while (first = @wanted.pop)
        run = [first]
        run << @wanted.pop(true) while run.size < MOST_AT_ONCE && !@wanted.empty?
        run.chunk_while { |a, b| a[0] == b[0] }.each { |alike| alike[0][0] ? subscribe(alike) : unsubscribe(alike) }
      end
    end

    def subscribe(wanted)
      begin
        @listener.subscribe(*wanted.map { |one| one[1] }, timeout: nil)
      rescue Refused => e
        @logger.error("pgwake: Action Cable cannot subscribe to #{e.message}")
      rescue Invalid => e
        # One bad name spoils the call for all.
        return wanted.each { |one| subscribe([one]) } if wanted.size > 1

        @logger.error("pgwake: Action Cable cannot subscribe: #{e.message}")
      end
      active = @listener.channels.to_h { |channel| [channel, true] }
      wanted.each { |_, channel, waiting| activate(channel, waiting) if active[channel] }
    end

    def unsubscribe(wanted)
      wanted.each do |_, channel|
        @listener.unsubscribe(channel)
      rescue Invalid
        nil # it was never subscribed
      end
    end

    # Unless it was unsubscribed meanwhile, and perhaps subscribed again.
    def activate(channel, waiting)
      @sync.synchronize do
        return unless @waiting[channel].equal?(waiting)

        @active[channel] = true
        @waiting.delete(channel)
      end
      waiting.each { |on_success| @post.call(&on_success) }
    end

    def listen
      loop do
        events = [@listener.next, *@listener.drain(MOST_AT_ONCE)]
        events.select(&:gap).group_by(&:gap).each { |cause, gaps| tell_gap(cause, gaps.size) }
        events.each { |event| hand_out(event) }
      end
    end

    def hand_out(event)
      case event.kind
      # Rails broadcasts JSON, which is never empty: a wake without payload is a gap or a reminder.
      when :wake then broadcast(event.channel, event.payload) if event.payload
      when :state then @logger.info("pgwake: Action Cable is served by #{event.source}: #{event.reason}")
      when :refused then @logger.error("pgwake: Action Cable: #{event.channel} is refused now: #{event.reason}")
      end
    end

    def tell_gap(cause, count)
      @logger.warn("pgwake: Action Cable may have missed broadcasts on #{count} channels (#{cause})")
    end
  end
end

# frozen_string_literal: true

require 'action_cable/subscription_adapter/postgresql'
require 'pgwake'
require 'pgwake/cable_listener'

module ActionCable
  module SubscriptionAdapter
    # `adapter: pgwake` in cable.yml: Rails' own PostgreSQL adapter, which broadcasts, prefixes and hashes names as ever,
    # with a listener that goes through the host's hub. All other keys there that are options of docs/client.md are the
    # listener's.
    class Pgwake < PostgreSQL
      # Of cable.yml, and not for libpgwake.
      OF_RAILS = %i[adapter channel_prefix id url].freeze
      private_constant :OF_RAILS

      def initialize(server)
        super
        @cable = server.config
        # Since Rails 8.1 an adapter is given an executor; before, the server has an event loop.
        @post = respond_to?(:executor, true) ? executor.method(:post) : ->(&block) { server.event_loop.post(&block) }
        @opening = Mutex.new
      end

      def shutdown
        @listener&.shutdown
      end

      private

      # A listener that the parent of a forked server made has no threads here, and its subscribers are not ours.
      def listener
        @opening.synchronize do
          @listener = nil if @listener && @listener.pid != Process.pid
          @listener ||= ::Pgwake::CableListener.new(options, @post, @cable.logger)
        end
      rescue ::Pgwake::Error => e
        # Rails' event loop says nothing of what is raised in it.
        @cable.logger.error("pgwake: Action Cable cannot listen: #{e.message}")
        raise
      end

      # PostgreSQL cuts a longer name in NOTIFY, and Rails counts characters.
      def channel_identifier(channel)
        super.byteslice(0, 63).scrub('')
      end

      def options
        given = @cable.cable.to_h.transform_keys(&:to_sym).except(*OF_RAILS)
        given[:database] ||= database_of_application unless ENV.key?('PGWAKE_DATABASE')
        { name: 'Action Cable', **given }
      end

      # What Active Record connects to, as a connection string: the listener's fallback.
      def database_of_application
        config = ::ActiveRecord::Base.connection_db_config.configuration_hash.compact
        config = { user: config[:username], dbname: config[:database] }.compact.merge(config)
        config.slice(*PG::Connection.conndefaults_hash.keys)
              .map { |key, value| "#{key}='#{value.to_s.gsub(/[\\']/) { |c| "\\#{c}" }}'" }.join(' ')
      end
    end
  end
end

# frozen_string_literal: true

require 'pg'

# The table of ../sse/schema.sql. What `newest` and `after` are for is in client/ruby/README.md.
class Messages
  def self.channel_of(stream)
    "pgmq.q_#{stream}.INSERT"
  end

  def initialize(conninfo)
    # Readers never wait for those who write.
    @reading = Session.new(conninfo, 'sse-puma reading')
    @writing = Session.new(conninfo, 'sse-puma writing')
  end

  def newest(channel)
    @reading.again('SELECT coalesce(max(newest), 0) FROM streams WHERE name = $1', stream_of(channel))[0][0].to_i
  end

  def after(channel, id, limit)
    rows = @reading.again('SELECT id, payload FROM messages WHERE stream = $1 AND id > $2 ORDER BY id LIMIT $3',
                          stream_of(channel), id, limit)
    rows.map { |number, payload| [number.to_i, payload] }
  end

  # A row: whoever is away gets it later.
  def add(stream, text)
    @writing.once('INSERT INTO messages (stream, payload) VALUES ($1, $2)', stream, text)
  end

  # For those who are there now.
  def notify(stream, text)
    @writing.once('SELECT pg_notify($1, $2)', Messages.channel_of(stream), text)
  end

  private

  def stream_of(channel)
    channel.delete_prefix('pgmq.q_').delete_suffix('.INSERT')
  end

  # One connection of a process, opened when it is first needed: never before Puma forks. It may go through a pooler.
  class Session
    def initialize(conninfo, name)
      @conninfo = conninfo
      @name = name
      @lock = Mutex.new
    end

    def once(statement, *parameters)
      @lock.synchronize { ask(statement, parameters) }
    end

    # For what may be said twice: the connection may have been lost since the last time.
    def again(statement, *parameters)
      @lock.synchronize do
        known = @connection
        ask(statement, parameters)
      rescue PG::ConnectionBad, PG::UnableToSend
        raise unless known

        ask(statement, parameters)
      end
    end

    private

    def ask(statement, parameters)
      # With fork_worker, Puma forks from a worker that has one already.
      @connection = nil unless @pid == Process.pid
      @pid = Process.pid
      @connection ||= PG.connect(@conninfo, application_name: @name, connect_timeout: 5)
      @connection.exec_params(statement, parameters).values
    rescue PG::Error
      forget unless @connection&.status == PG::CONNECTION_OK
      raise
    end

    def forget
      @connection&.finish
    rescue PG::Error
      nil
    ensure
      @connection = nil
    end
  end
end

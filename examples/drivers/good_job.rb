# frozen_string_literal: true

# config/initializers/pgwake_good_job.rb: GoodJob is woken through the hub. Its own notifier shares a connection with its
# process records and an advisory lock, which the front door does not serve, so it stays off where jobs are run:
#
#   GOOD_JOB_ENABLE_LISTEN_NOTIFY=false good_job start     # not in processes that enqueue: they must go on notifying
#   GOOD_JOB_LISTEN_DATABASE="host=/run/pgwake/shop,db.internal port=5432,5432 dbname=shop user=app"
#
# Written from GoodJob's sources; pgwake's tests do not run it. Jobs that were enqueued while nobody listened are found by
# GoodJob's polling (poll_interval), as without the hub.
require 'json'
require 'pg'

module PgwakeGoodJob
  module_function

  def start(conninfo)
    Thread.new do
      loop do
        listen(conninfo)
      rescue PG::Error => e
        # The hub told of a gap, was restarted, or is away; libpq tries the second host by itself.
        Rails.logger.warn("good_job listens again: #{e.message.lines.first}")
        sleep 1
      end
    end
  end

  def listen(conninfo)
    connection = PG.connect(conninfo)
    connection.exec('LISTEN good_job')
    wake({}) # what came before
    loop do
      connection.wait_for_notify(10) { |_channel, _pid, payload| wake(JSON.parse(payload, symbolize_names: true)) }
    end
  ensure
    connection&.close
  end

  def wake(state)
    GoodJob::Scheduler.instances.each { |scheduler| scheduler.create_thread(state.presence) }
  end
end

conninfo = ENV.fetch('GOOD_JOB_LISTEN_DATABASE', nil)
Rails.application.config.after_initialize { PgwakeGoodJob.start(conninfo) } if conninfo

# ruby-pg as its documents show it.
require 'pg'

loop do
  conn = PG.connect(ARGV[0])
  conn.exec('LISTEN drivers')
  puts 'ready'
  $stdout.flush
  loop do
    conn.wait_for_notify(10) do |_channel, _pid, payload|
      puts "got #{payload}"
      $stdout.flush
    end
  end
rescue PG::Error => e
  puts "lost #{e.message.lines.first}"
  sleep 0.02
  $stdout.flush
end

# Sequel's Database#listen, which reconnects by itself.
require 'sequel'

words = ARGV[0].split.to_h { |word| word.split('=', 2) }
loop do
  db = Sequel.postgres(host: words['host'], port: words['port'], user: words['user'], database: words['dbname'])
  db.listen('drivers', loop: true, after_listen: proc { puts 'ready'; $stdout.flush }) do |_channel, _pid, payload|
    puts "got #{payload}"
    $stdout.flush
  end
rescue Sequel::DatabaseError, PG::Error => e
  puts "lost #{e.message.lines.first}"
  sleep 0.02
  $stdout.flush
end

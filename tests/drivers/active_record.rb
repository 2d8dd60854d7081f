# Active Record's connection with the raw one of ruby-pg: what it says when it connects is answered, too.
require 'active_record'
$stdout.sync = true
words = ARGV[0].split.to_h { |word| word.split('=', 2) }
loop do
  ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: words['host'], port: words['port'],
                                          username: words['user'], database: words['dbname'])
  connection = ActiveRecord::Base.connection
  connection.execute('LISTEN drivers')
  puts 'ready'
  raw = connection.raw_connection
  loop { raw.wait_for_notify(10) { |_channel, _pid, payload| puts "got #{payload}" } }
rescue ActiveRecord::ActiveRecordError, PG::Error => e
  puts "lost #{e.message.lines.first}"
  sleep 0.02
end

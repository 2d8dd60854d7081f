# Mojo::Pg::PubSub: it connects and listens again by itself.
use strict;
use warnings;
use Mojo::Pg;
use Mojo::IOLoop;
$| = 1;
my %word = map { split /=/, $_, 2 } split ' ', $ARGV[0];
my $pg = Mojo::Pg->new;
$pg->dsn("dbi:Pg:host=$word{host};port=$word{port};dbname=$word{dbname}")->username($word{user})->password('');
# The event comes before its LISTENs are sent; they are answered when a later statement is.
$pg->pubsub->on(reconnect => sub { my (undef, $db) = @_; print "lost\n"; Mojo::IOLoop->next_tick(sub { answered($db) }) });
$pg->pubsub->reconnect_interval(0.05);
my $listens = 0;
sub answered {
    my $db = shift;
    eval { $db->query('SELECT 1'); print "ready\n"; 1 };
}
$pg->pubsub->listen(drivers => sub { print "got $_[1]\n" });
Mojo::IOLoop->start;

# DBD::Pg as its documents show it: pg_notifies, and an empty wait.
use strict;
use warnings;
use DBI;
$| = 1;
my $words = join ';', split ' ', $ARGV[0];
while (1) {
    eval {
        my $dbh = DBI->connect("dbi:Pg:$words", '', '', { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
        $dbh->do('LISTEN drivers');
        print "ready\n";
        while (1) {
            while (my $n = $dbh->pg_notifies) { print "got $n->[2]\n"; }
            die 'ping' unless $dbh->ping;
            select undef, undef, undef, 0.02;
        }
    };
    print "lost\n";
    select undef, undef, undef, 0.02;
}

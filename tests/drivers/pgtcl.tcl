# Pgtcl: pg_listen with a command, and pg_on_connection_loss.
lappend auto_path /usr/lib/tcltk/x86_64-linux-gnu
package require Pgtcl
if {[lindex $argv 0] eq "--probe"} exit
fconfigure stdout -buffering line
proc got {channel pid payload} { puts "got $payload" }
proc lost {args} {
    puts lost
    catch {pg_disconnect $::db}
    after 20 listen
}
proc listen {} {
    if {[catch {
        set ::db [pg_connect -conninfo [lindex $::argv 0]]
        pg_listen $::db drivers got
        pg_on_connection_loss $::db lost
    }]} {
        after 50 listen
    } else {
        puts ready
    }
}
listen
vwait forever

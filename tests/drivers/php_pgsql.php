<?php
// PHP's pgsql extension: pg_get_notify.
while (true) {
    $conn = @pg_connect($argv[1], PGSQL_CONNECT_FORCE_NEW);
    if ($conn && @pg_query($conn, 'LISTEN drivers')) {
        echo "ready\n";
        while (pg_connection_status($conn) === PGSQL_CONNECTION_OK) {
            $n = @pg_get_notify($conn, PGSQL_ASSOC);
            if ($n) {
                echo "got {$n['payload']}\n";
            } else {
                if (!@pg_query($conn, 'SELECT 1')) break;
                usleep(20000);
            }
        }
    }
    echo "lost\n";
    usleep(20000);
}

"""psycopg 2 as its documents show it: select() on the connection, then poll()."""
import select
import sys
import time
import psycopg2
import psycopg2.extensions

while True:
    try:
        conn = psycopg2.connect(sys.argv[1])
        conn.set_isolation_level(psycopg2.extensions.ISOLATION_LEVEL_AUTOCOMMIT)
        conn.cursor().execute("LISTEN drivers")
        print("ready", flush=True)
        while True:
            select.select([conn], [], [])
            conn.poll()
            while conn.notifies:
                print("got", conn.notifies.pop(0).payload, flush=True)
    except psycopg2.OperationalError as e:
        print("lost", str(e).split("\n")[0], flush=True)
        time.sleep(0.02)

"""psycopg 3 with a connection of psycopg_pool, which checks what it hands out and resets what comes back."""
import sys
import psycopg
from psycopg_pool import ConnectionPool

pool = ConnectionPool(sys.argv[1], kwargs={"autocommit": True}, min_size=1, max_size=1, reconnect_timeout=60)
while True:
    try:
        with pool.connection(timeout=2) as conn:
            conn.execute("LISTEN drivers")
            print("ready", flush=True)
            for n in conn.notifies():
                print("got", n.payload, flush=True)
    except psycopg.OperationalError as e:
        print("lost", str(e).split("\n")[0], flush=True)
    pool.check()

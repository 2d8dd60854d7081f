"""psycopg 3 as its documents show it: autocommit, then notifies()."""
import sys
import time
import psycopg

conninfo = sys.argv[1]
while True:
    try:
        with psycopg.connect(conninfo, autocommit=True) as conn:
            conn.execute("LISTEN drivers")
            print("ready", flush=True)
            for n in conn.notifies():
                print("got", n.payload, flush=True)
    except psycopg.OperationalError as e:
        print("lost", str(e).split("\n")[0], flush=True)
        time.sleep(0.02)

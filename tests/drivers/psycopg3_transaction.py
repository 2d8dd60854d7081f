"""psycopg 3 without autocommit: LISTEN is in a transaction, and so takes effect at COMMIT."""
import sys
import time
import psycopg

conninfo = sys.argv[1]
while True:
    try:
        with psycopg.connect(conninfo) as conn:
            conn.execute("LISTEN drivers")
            conn.commit()
            print("ready", flush=True)
            for n in conn.notifies():
                print("got", n.payload, flush=True)
    except psycopg.OperationalError as e:
        print("lost", str(e).split("\n")[0], flush=True)
        time.sleep(0.02)

"""PyGreSQL: the classic interface's getnotify()."""
import select
import sys
import time
import pg

words = dict(word.split("=", 1) for word in sys.argv[1].split())
while True:
    try:
        db = pg.DB(dbname=words["dbname"], host=words["host"], port=int(words["port"]), user=words["user"])
        db.query("LISTEN drivers")
        print("ready", flush=True)
        while True:
            select.select([db.fileno()], [], [])
            n = db.getnotify()
            if n is None and db.status == 0:
                raise pg.InternalError("the connection has ended")
            while n is not None:
                print("got", n[2], flush=True)
                n = db.getnotify()
    except pg.Error as e:
        print("lost", str(e).split("\n")[0], flush=True)
        time.sleep(0.02)

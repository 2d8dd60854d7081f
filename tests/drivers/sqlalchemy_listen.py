"""SQLAlchemy: its pool's connection, and the driver's own below it. On connecting its dialect asks for the version, the
schema and more."""
import select
import sys
import time
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.pool import NullPool

words = dict(word.split("=", 1) for word in sys.argv[1].split())
url = sqlalchemy.engine.URL.create("postgresql+psycopg2", username=words["user"], database=words["dbname"],
                                   query={"host": words["host"], "port": words["port"]})
while True:
    try:
        engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as conn:
            conn.execute(text("LISTEN drivers"))
            print("ready", flush=True)
            raw = conn.connection.dbapi_connection
            while True:
                select.select([raw], [], [])
                raw.poll()
                while raw.notifies:
                    print("got", raw.notifies.pop(0).payload, flush=True)
    except Exception as e:
        print("lost", str(e).split("\n")[0], flush=True)
        time.sleep(0.02)

"""aiopg: psycopg 2 on an event loop."""
import asyncio
import sys
import aiopg
import psycopg2


async def main():
    while True:
        try:
            async with aiopg.connect(sys.argv[1]) as conn:
                async with conn.cursor() as cur:
                    await cur.execute("LISTEN drivers")
                    print("ready", flush=True)
                    while True:
                        n = await conn.notifies.get()
                        print("got", n.payload, flush=True)
        except psycopg2.Error as e:
            print("lost", str(e).split("\n")[0], flush=True)


asyncio.run(main())

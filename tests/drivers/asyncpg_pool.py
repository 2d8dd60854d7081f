"""asyncpg with a connection of a pool, which is reset when it goes back."""
import asyncio
import sys
import asyncpg

settings = dict(word.split("=", 1) for word in sys.argv[1].split())


async def listen(pool):
    lost = asyncio.Event()
    async with pool.acquire() as conn:
        conn.add_termination_listener(lambda _: lost.set())
        await conn.add_listener("drivers", lambda c, pid, channel, payload: print("got", payload, flush=True))
        print("ready", flush=True)
        await lost.wait()
        print("lost", flush=True)


async def main():
    while True:
        try:
            async with asyncpg.create_pool(host=settings["host"], port=settings["port"], user=settings["user"],
                                           database=settings["dbname"], min_size=1, max_size=1) as pool:
                async with pool.acquire() as conn:
                    await conn.add_listener("other", print)
                await listen(pool)
        except (OSError, asyncpg.PostgresError) as e:
            print("lost", e, flush=True)
            await asyncio.sleep(0.05)


asyncio.run(main())

"""The faces for asyncio and trio."""

from __future__ import annotations

import asyncio
import os
import unittest
import unittest.mock
import warnings

import pgwake
import pgwake.aio

from .support import host

try:
    import trio

    import pgwake.trio
except ImportError:
    trio = None  # type: ignore[assignment]


class Asyncio(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.host = host("--allow", f"uid:{os.getuid()} c*")
        cls.addClassCleanup(cls.host.close)

    def listener(self, **more) -> pgwake.aio.Listener:
        listener = pgwake.aio.Listener(**self.host.options(**more))
        self.addCleanup(listener.close)
        return listener

    async def wake(self, listener: pgwake.aio.Listener) -> pgwake.Event:
        while True:
            e = await listener.next(timeout=60)
            self.assertIsNotNone(e)
            if e.kind == "wake":
                return e

    async def test_events(self) -> None:
        async with self.listener() as listener:
            await listener.subscribe("c1", "c2")
            self.host.notify("c1", "x")
            self.host.notify("c2")
            e = await self.wake(listener)
            self.assertEqual((e.channel, e.payload), ("c1", "x"))
            self.assertTrue((await self.wake(listener)).read_again)
            self.assertIsNone(await listener.next(timeout=0.05))
            self.assertEqual(listener.state.source, "hub")
            await listener.unsubscribe("c1")
            self.assertEqual(listener.channels, {"c2"})
        self.assertEqual([e async for e in listener], [])

    async def test_refusals_and_deadlines(self) -> None:
        listener = self.listener()
        with self.assertRaises(pgwake.Refused) as caught:
            await listener.subscribe("c1", "forbidden")
        self.assertEqual(caught.exception.code, "forbidden")
        nobody = pgwake.aio.Listener(socket="/nonexistent/s", database="host=/nonexistent")
        with self.assertRaises(pgwake.TimeoutError):
            await nobody.subscribe("c", timeout=0.1)
        waiting = asyncio.ensure_future(nobody.subscribe("c", timeout=None))
        await asyncio.sleep(0.05)
        nobody.close()
        with self.assertRaises(pgwake.Closed):
            await waiting

    async def test_callbacks(self) -> None:
        """As asyncpg's; one that fails harms no other; a coroutine function is fine."""
        listener = self.listener()
        seen: asyncio.Queue = asyncio.Queue()
        failures: list[dict] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))

        def bad(*_) -> None:
            raise ValueError("of the test")

        async def later(connection, pid, channel, payload) -> None:
            await asyncio.sleep(0)
            seen.put_nowait((channel, payload, pid > 0))

        await listener.add_listener("c1", bad)
        await listener.add_listener("c1", later)
        await listener.subscribe("c2")
        self.host.notify("c1", "called")
        self.host.notify("c2", "queued")
        self.assertEqual(await asyncio.wait_for(seen.get(), 60), ("c1", "called", True))
        self.assertEqual((await self.wake(listener)).payload, "queued")
        self.assertEqual([str(f["exception"]) for f in failures], ["of the test"])
        await listener.remove_listener("c1", bad)
        self.assertEqual(listener.channels, {"c1", "c2"})
        await listener.remove_listener("c1", later)
        self.assertEqual(listener.channels, {"c2"})
        with self.assertRaises(pgwake.Refused):
            await listener.add_listener("forbidden", bad)

    async def test_cancelling_loses_nothing(self) -> None:
        listener = self.listener()
        await listener.subscribe("c1")
        while await listener.next(timeout=0.05):
            pass
        for i in range(20):
            waiting = asyncio.ensure_future(listener.next())
            other = asyncio.ensure_future(listener.next())
            await asyncio.sleep(0)
            self.host.notify("c1", str(i))
            await asyncio.sleep(0.001 * (i % 5))
            waiting.cancel()
            got = []
            for task in (waiting, other):
                try:
                    got.append((await asyncio.wait_for(task, 60)).payload if task is other else (await task).payload)
                except asyncio.CancelledError:
                    continue
                except asyncio.TimeoutError:
                    self.fail("lost")
                if got:
                    other.cancel()
                    break
            self.assertEqual(got, [str(i)])

    async def test_many(self) -> None:
        """D1: many tasks, each event once."""
        listener = self.listener()
        await listener.subscribe("c1")
        seen: list[int] = []

        async def take() -> None:
            async for e in listener:
                if e.kind == "wake":
                    seen.append(int(e.payload))

        tasks = [asyncio.ensure_future(take()) for _ in range(4)]
        self.host.sql("SELECT FROM (SELECT pg_notify('c1', i::text) FROM generate_series(1, 3000) i) x")
        for _ in range(6000):
            if len(seen) == 3000:
                break
            await asyncio.sleep(0.01)
        listener.close()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        self.assertEqual(sorted(seen), list(range(1, 3001)))


class AsyncioForked(unittest.TestCase):
    def test_a_child_with_a_loop_of_its_own(self) -> None:
        """C8: the child's listener goes on in the child's loop."""
        here = host()
        self.addCleanup(here.close)

        async def open_it() -> pgwake.aio.Listener:
            listener = pgwake.aio.Listener(**here.options())
            await listener.subscribe("c")
            return listener

        async def gap(listener: pgwake.aio.Listener) -> str:
            while True:
                e = await listener.next(timeout=60)
                if e is None or e.kind == "wake":
                    return "none" if e is None else e.gap

        listener = asyncio.run(open_it())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if asyncio.run(gap(listener)) == "forked" else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        listener.close()


@unittest.skipIf(trio is None, "python3-trio is not installed")
class Trio(unittest.TestCase):
    def test_events(self) -> None:
        here = host("--allow", f"uid:{os.getuid()} c*")
        self.addCleanup(here.close)

        async def wake(listener) -> pgwake.Event:
            while True:
                e = await listener.next(timeout=60)
                self.assertIsNotNone(e)
                if e.kind == "wake":
                    return e

        async def main() -> None:
            async with pgwake.trio.Listener(**here.options()) as listener:
                await listener.subscribe("c1")
                here.notify("c1", "x")
                self.assertEqual((await wake(listener)).payload, "x")
                self.assertIsNone(await listener.next(timeout=0.05))
                with self.assertRaises(pgwake.Refused):
                    await listener.subscribe("forbidden")
                seen: list[int] = []

                async def take() -> None:
                    async for e in listener:
                        if e.kind == "wake":
                            seen.append(int(e.payload))

                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(take)
                    here.sql("SELECT FROM (SELECT pg_notify('c1', i::text) FROM generate_series(1, 1000) i) x")
                    await listener.subscribe("c2")
                    with trio.fail_after(60):
                        while len(seen) < 1000:
                            await trio.sleep(0.01)
                    listener.close()
                self.assertEqual(sorted(seen), list(range(1, 1001)))

        trio.run(main)

    def test_subscribing_beside_a_task_that_reads(self) -> None:
        """C1: the answer reaches who waits for it, whichever task reads it."""
        here = host("--allow", f"uid:{os.getuid()} c*")
        self.addCleanup(here.close)

        async def take(listener) -> None:
            try:
                while True:
                    await listener.next(timeout=0.001)
            except pgwake.Closed:
                pass

        async def preempted(fd: int) -> None:
            await trio.sleep(0.05)
            await wait_readable(fd)

        wait_readable = trio.lowlevel.wait_readable
        self.enterContext(unittest.mock.patch("trio.lowlevel.wait_readable", preempted))

        async def main() -> None:
            async with pgwake.trio.Listener(**here.options()) as listener, trio.open_nursery() as nursery:
                nursery.start_soon(take, listener)
                for _ in range(5):
                    with trio.fail_after(60):
                        await listener.subscribe("c1", timeout=None)
                    await listener.unsubscribe("c1")
                listener.close()

        trio.run(main)


if __name__ == "__main__":
    unittest.main()

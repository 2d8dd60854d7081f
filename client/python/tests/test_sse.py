"""pgwake.asgi.sse, called as a server calls it. In servers: test_asgi.py."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import unittest
import unittest.mock

import pgwake
import pgwake.asgi
from pgwake._fanout import HEARTBEAT, Fanout, Settings, Stream

from .support import NOWHERE, eventually, host

SETTINGS = Settings(heartbeat=15, write_timeout=30, max_unsent=1 << 20, linger=0, reconnect=2, max_browsers=10)


class Unsent(unittest.IsolatedAsyncioTestCase):
    async def test_the_bound(self) -> None:
        stream = Stream(("c",), 100)
        self.assertTrue(stream.put(b"x" * 60))
        self.assertFalse(stream.put(b"x" * 60))
        # What is being sent counts until it is.
        self.assertEqual(await stream.take(10), b"x" * 60)
        self.assertFalse(stream.put(b"x" * 60))
        stream.sent(60)
        self.assertTrue(stream.put(b"x" * 60))

    async def test_wakes_without_payload_merge(self) -> None:
        """D2: those that say the same, while one waits, and never once it is sent."""
        stream = Stream(("c",), 100)
        for _ in range(1000):
            self.assertTrue(stream.put(b"1", "a"))
        self.assertTrue(stream.put(b"2"))
        for _ in range(1000):
            self.assertTrue(stream.put(b"3", "b") and stream.put(b"1", "a"))
        self.assertEqual(await stream.take(10), b"123")
        self.assertTrue(stream.put(b"1", "a"))
        self.assertEqual(await stream.take(10), b"1")

    async def test_a_heartbeat_and_the_end(self) -> None:
        stream = Stream(("c",), 100)
        self.assertEqual(await stream.take(0.01), HEARTBEAT)
        stream.put(b"last")
        stream.end()
        self.assertEqual(await stream.take(10), b"last")
        self.assertEqual(await stream.take(10), b"")


class Application(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.host = host("--allow", f"uid:{os.getuid()} c*")
        cls.addClassCleanup(cls.host.close)

    async def begin(self, app, **scope) -> asyncio.Queue:
        """A request; what the application sends."""
        sent: asyncio.Queue = asyncio.Queue()
        asked: asyncio.Queue = asyncio.Queue()
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", **scope}
        task = asyncio.ensure_future(app(scope, asked.get, sent.put))

        async def end() -> None:
            await asked.put({"type": "http.disconnect"})
            await task

        self.addAsyncCleanup(end)
        return sent

    def close_fanouts(self) -> None:
        for fanout in list(pgwake.asgi._fanouts.values()):
            fanout.close()
        pgwake.asgi._fanouts.clear()

    async def asyncTearDown(self) -> None:
        self.close_fanouts()

    async def body(self, sent: asyncio.Queue) -> bytes:
        message = await asyncio.wait_for(sent.get(), 20)
        self.assertEqual((message["type"], message["more_body"]), ("http.response.body", True))
        return message["body"]

    async def test_a_stream(self) -> None:
        app = pgwake.asgi.sse("c1", **self.host.options())
        sent = await self.begin(app)
        self.assertEqual((await asyncio.wait_for(sent.get(), 20))["status"], 200)
        self.assertRegex(await self.body(sent), rb"retry: \d+\n\n")
        self.host.notify("c1", "x\ny")
        self.assertEqual(await self.body(sent), b'event: wake\ndata: {"channel": "c1", "payload": "x\\ny"}\n\n')
        self.close_fanouts()  # as at the end of the server
        self.assertEqual(await self.body(sent), b"event: shutdown\ndata: {}\n\n")
        last = await asyncio.wait_for(sent.get(), 20)
        self.assertEqual(last, {"type": "http.response.body", "body": b"", "more_body": False})

    async def test_channels_are_chosen(self) -> None:
        async def choose(scope):
            return scope["query_string"].decode() or None

        app = pgwake.asgi.sse(choose=choose, **self.host.options())
        for asked, status in ((b"", 403), (b"forbidden", 403), (b"c" * 64, 400), (b"c2", 200)):
            sent = await self.begin(app, query_string=asked)
            self.assertEqual((await asyncio.wait_for(sent.get(), 20))["status"], status)
        with self.assertRaises(pgwake.Invalid):
            pgwake.asgi.sse()

    async def test_what_is_no_name_leaves_nothing_behind(self) -> None:
        """Names may be taken from the request."""
        fanout = Fanout(SETTINGS, dict(NOWHERE))
        self.addCleanup(fanout.close)
        for wrong in (None, 1):
            with self.assertRaises(TypeError):
                await fanout.enter(["a", wrong], 10)  # type: ignore[list-item]
        for wrong_name in ("\ud800", "a\0b"):
            with self.assertRaises(pgwake.Invalid):
                await fanout.enter(["a", wrong_name], 10)
        self.assertEqual((fanout._streams, fanout._members, fanout._idle), (set(), {}, {}))

    async def test_what_nobody_takes_does_not_hold_the_loop(self) -> None:
        # Its linger keeps the channel: an unsubscribe would take what waits away.
        fanout = Fanout(dataclasses.replace(SETTINGS, linger=60), self.host.options())
        self.addCleanup(fanout.close)
        stream = await fanout.enter(["c1"], 60)
        fanout.leave(stream)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        self.host.sql("SELECT FROM (SELECT pg_notify('c1', n::text) FROM generate_series(1, 20000) n) AS calls")
        self.assertTrue(eventually(lambda: fanout._listener.state.waiting >= 20000))  # while the loop stands
        counting = asyncio.ensure_future(count())
        with unittest.mock.patch.object(fanout, "_hand_out", wraps=fanout._hand_out) as handing:
            while handing.call_count < 20000:
                await asyncio.sleep(0)
        counting.cancel()
        self.assertGreater(turns, 20)

    async def test_lifespan(self) -> None:
        """As the whole application of a server."""
        sent: asyncio.Queue = asyncio.Queue()
        asked: asyncio.Queue = asyncio.Queue()
        for what in ("startup", "shutdown"):
            asked.put_nowait({"type": "lifespan." + what})
        await pgwake.asgi.sse("c", **NOWHERE)({"type": "lifespan"}, asked.get, sent.put)
        types = [sent.get_nowait()["type"] for _ in range(2)]
        self.assertEqual(types, ["lifespan.startup.complete", "lifespan.shutdown.complete"])


class Signals(unittest.TestCase):
    def test_handlers_that_call_each_other(self) -> None:
        """A handler that was put over ours, and calls it, is reached, and so is the server's own, once."""
        calls: list[str] = []
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
        before = {number: signal.getsignal(number) for number in numbers}
        try:
            signal.signal(signal.SIGTERM, lambda number, frame: calls.append("server"))
            pgwake.asgi._watch_for_the_end()
            ours = signal.getsignal(signal.SIGTERM)
            assert callable(ours)
            signal.signal(signal.SIGTERM, lambda number, frame: (calls.append("other"), ours(number, frame)))
            pgwake.asgi._watch_for_the_end()
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            pgwake.asgi._before.clear()
        self.assertEqual(calls, ["other", "server"] * 2)

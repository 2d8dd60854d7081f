"""The rows behind the channels, as the browsers of one event loop get them. Reminders stand in for wakes;
examples/sse-gunicorn has both sides, with a table."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import unittest
import unittest.mock
from typing import Callable

import pgwake
import pgwake.asgi
from pgwake._fanout import Fanout, Settings, Stream

from .support import NOWHERE


LENGTHS = {"long": 20_000, "half": 6_000}
"""Of the payloads; 10,000 bytes may wait."""


class Numbers:
    """Rows of each channel, with their number as payload."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.reads = 0
        self.broken = False

    def add(self, channel: str, count: int = 1) -> None:
        self.count[channel] = self.count.get(channel, 0) + count

    async def newest(self, channel: str) -> int:
        await asyncio.sleep(0)
        if self.broken:
            raise OSError("no database")
        return self.count.get(channel, 0)

    async def after(self, channel: str, number: int, limit: int) -> list[tuple[int, str]]:
        await asyncio.sleep(0)
        if self.broken:
            raise OSError("no database")
        self.reads += 1
        found = range(number + 1, self.count.get(channel, 0) + 1)[:limit]
        return [(n, "x" * LENGTHS[channel] if channel in LENGTHS else str(n)) for n in found]


class Reader:
    """Takes what a stream has, so much at a time."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.ids: list[str] = []
        self.rows: list[tuple[str, int]] = []
        self.started: str | None = None

    async def take(self) -> None:
        body = await self.stream.take(0.02)
        self.stream.sent(len(body))
        for text in body.decode().split("\n\n"):
            found = re.fullmatch(r"id: (.*)\nevent: (\w+)\ndata: (.*)", text)
            if found is None:
                continue
            self.ids.append(found[1])
            data = json.loads(found[3])
            if found[2] == "start":
                self.started = data["id"]
            else:
                self.rows.append((data["channel"], data["id"]))


class Rows(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.numbers = Numbers()
        self.fanout = Fanout(Settings(15, 30, 10_000, 30, 2, 99, self.numbers), dict(NOWHERE))
        self.addCleanup(self.fanout.close)

    async def browser(self, *channels: str, positions: list[int] | None = None, timeout: float = 20) -> Reader:
        return Reader(await self.fanout.enter(channels, timeout, positions))

    async def eventually(self, reader: Reader, what: Callable[[], object]) -> None:
        until = asyncio.get_running_loop().time() + 30
        while not what():
            self.assertLess(asyncio.get_running_loop().time(), until, f"{len(reader.rows)} rows")
            await reader.take()

    async def expect(self, reader: Reader, channel: str, numbers: range) -> None:
        await self.eventually(reader, lambda: len(reader.rows) >= len(numbers))
        self.assertEqual(reader.rows, [(channel, n) for n in numbers])

    async def test_from_the_newest_row_on(self) -> None:
        self.numbers.add("c", 7)
        reader = await self.browser("c")
        self.numbers.add("c", 3)
        await self.expect(reader, "c", range(8, 11))
        self.assertEqual((reader.started, reader.ids), ("7", ["7", "8", "9", "10"]))

    async def test_from_where_the_browser_was(self) -> None:
        self.numbers.add("c", 7)
        await self.expect(await self.browser("c", positions=[4]), "c", range(5, 8))

    async def test_more_than_one_read_and_more_than_may_wait(self) -> None:
        """No wake says that there is more."""
        self.numbers.add("c", 3000)
        reader = await self.browser("c", positions=[0])
        await self.expect(reader, "c", range(1, 3001))
        self.assertFalse(reader.stream.dropped)

    async def test_long_rows(self) -> None:
        """Longer than may wait: one at a time."""
        self.numbers.add("long", 5)
        await self.expect(await self.browser("long", positions=[0]), "long", range(1, 6))

    async def test_a_row_without_room_waits_for_it(self) -> None:
        """It is not read again before nothing waits any more."""
        reader = await self.browser("half", positions=[0])
        self.assertTrue(reader.stream.put(b":" + b"x" * 4_500 + b"\n\n"))
        self.numbers.add("half")
        await asyncio.sleep(0.3)
        self.assertLessEqual(self.numbers.reads, 3)
        await self.expect(reader, "half", range(1, 2))

    async def test_a_long_row_on_its_way_drops_nobody(self) -> None:
        reader = await self.browser("long", positions=[0])
        await self.eventually(reader, lambda: reader.started)
        self.numbers.add("long", 2)
        until = asyncio.get_running_loop().time() + 30
        while reader.stream._unsent < LENGTHS["long"]:
            self.assertLess(asyncio.get_running_loop().time(), until)
            await asyncio.sleep(0.01)
        self.assertFalse(reader.stream.put(b"x" * 10_001))
        self.assertTrue(reader.stream.put(b"event: wake\ndata: {}\n\n"))
        await self.expect(reader, "long", range(1, 3))

    async def test_no_row_yet(self) -> None:
        """SELECT max(id) of an empty table is NULL."""
        with unittest.mock.patch.object(self.numbers, "newest", unittest.mock.AsyncMock(return_value=None)):
            reader = await self.browser("c")
        self.numbers.add("c")
        await self.expect(reader, "c", range(1, 2))

    async def test_a_source_that_fails_when_it_is_called(self) -> None:
        with unittest.mock.patch.object(self.numbers, "newest", unittest.mock.Mock(side_effect=OSError("no database"))):
            with self.assertLogs("pgwake.sse", "ERROR"), self.assertRaises(pgwake.TimeoutError):
                await self.browser("c", timeout=0.1)
        await self.browser("c")

    async def test_a_reader_that_ends_ends_the_streams(self) -> None:
        """They would wait for ever."""
        ended = unittest.mock.AsyncMock(side_effect=asyncio.CancelledError)
        with unittest.mock.patch.object(self.numbers, "newest", ended), self.assertRaises(pgwake.Closed):
            await self.browser("c")
        self.assertTrue(self.fanout.ended)

    async def test_a_source_without_a_hash(self) -> None:
        @dataclasses.dataclass
        class Source(Numbers):
            table: str

        hash(Settings(15, 30, 10_000, 30, 2, 99, Source("messages")))

    async def test_who_catches_up_holds_up_nobody(self) -> None:
        self.numbers.add("c", 8000)
        far, near = await self.browser("c", positions=[0]), await self.browser("c", positions=[7999])
        catching_up = asyncio.ensure_future(self.expect(far, "c", range(1, 8002)))
        self.numbers.add("c")
        await self.expect(near, "c", range(8000, 8002))
        self.assertLess(len(far.rows), 8000)
        await catching_up

    async def test_several_channels(self) -> None:
        self.numbers.add("a", 5)
        self.numbers.add("b", 2)
        reader = await self.browser("a", "b", positions=[4, 2])
        await self.expect(reader, "a", range(5, 6))
        self.numbers.add("b")
        await self.eventually(reader, lambda: len(reader.rows) == 2)
        self.assertEqual((reader.ids, reader.rows[-1]), (["4,2", "5,2", "5,3"], ("b", 3)))

    async def test_coming_while_rows_are_added(self) -> None:
        """Each row once and in order, whatever is added while a browser comes; one read is for all."""

        async def add() -> None:
            while True:
                self.numbers.add("c")
                await asyncio.sleep(0.0005)

        adding = asyncio.ensure_future(add())
        readers = await asyncio.gather(*(self.browser("c") for _ in range(50)))
        adding.cancel()
        for reader in readers:
            await self.eventually(reader, lambda: reader.started)
            await self.expect(reader, "c", range(int(reader.started or 0) + 1, self.numbers.count["c"] + 1))

    async def test_one_read_for_all(self) -> None:
        readers = [await self.browser("c") for _ in range(30)]
        loop = asyncio.get_running_loop()
        before, began = self.numbers.reads, loop.time()
        self.numbers.add("c")
        for reader in readers:
            await self.expect(reader, "c", range(1, 2))
        # Reminders come every 20 ms, and a browser may just have come.
        self.assertLessEqual(self.numbers.reads - before, (loop.time() - began) / 0.02 + 3)

    async def test_a_database_that_is_away(self) -> None:
        reader = await self.browser("c")
        self.numbers.broken = True
        self.numbers.add("c")
        with self.assertLogs("pgwake.sse", "ERROR") as logs:
            with self.assertRaises(pgwake.TimeoutError):
                await self.browser("c", timeout=0.1)
        self.assertIn("the rows of c cannot be read: no database", logs.output[0])
        self.numbers.broken = False
        await self.expect(reader, "c", range(1, 2))

    async def test_the_server_stops_meanwhile(self) -> None:
        self.numbers.broken = True
        coming = asyncio.ensure_future(self.browser("c"))
        with self.assertLogs("pgwake.sse", "ERROR"):
            while not self.fanout._streams:
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
        self.fanout.close()
        with self.assertRaises(pgwake.Closed):
            await coming


class Positions(unittest.TestCase):
    def test_what_a_browser_says_it_has(self) -> None:
        def positions(header: bytes | None, query: bytes = b"", count: int = 1) -> list[int] | None:
            headers = [] if header is None else [(b"last-event-id", header)]
            app = pgwake.asgi.sse("c", rows=Numbers(), **NOWHERE)
            return app._positions({"headers": headers, "query_string": query}, count)

        self.assertEqual(positions(b"7"), [7])
        self.assertEqual(positions(None, b"x=1&last_event_id=7"), [7])
        self.assertEqual(positions(b"7", b"last_event_id=5"), [7])  # a page that came back by itself knows better
        self.assertEqual(positions(None, b"last_event_id=7%2C8", 2), [7, 8])
        for wrong in (b"", b"x", b"7,8", b"-1", b"7;", b"9" * 19, b"9" * 30, b"7\n", b"\xff"):
            self.assertIsNone(positions(wrong), wrong)

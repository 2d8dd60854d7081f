"""The rows behind the channels of an event loop's browsers."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Iterable, Iterator, Protocol, Sequence, Tuple, TypeVar

from ._errors import Closed, TimeoutError

if TYPE_CHECKING:
    from ._fanout import Stream

_log = logging.getLogger("pgwake.sse")
_T = TypeVar("_T")

AT_ONCE = 100
"""Rows of one read; those for which a browser has no room are read again."""
_PAUSE = 0.5
"""Seconds until what failed is tried again."""


class RowSource(Protocol):
    """Reads the rows that the wakes of channels announce. Called by one task of an event loop."""

    def newest(self, channel: str) -> Awaitable[int | None]:
        """The number of its newest row; 0 or None: there is none."""

    def after(self, channel: str, number: int, limit: int) -> Awaitable[Sequence[Tuple[int, Any]]]:
        """Number and payload of the rows behind that one, in order, at most so many."""


class Rows:
    """One task reads for all. A stream has a position in each of its channels, and is behind where a wake has come
    since its last read. All streams that are behind in a channel are served by one read from the position of the
    rearmost; where that one has much to catch up with, the others do not wait for it."""

    def __init__(self, source: RowSource, streams: set[Stream]) -> None:
        self._source = source
        self._streams = streams
        self._changed = asyncio.Event()

    async def place(self, stream: Stream, timeout: float) -> None:
        """The stream's channels are subscribed: from now on it is owed all rows behind its position, which is the
        newest row where the browser names none."""
        stream.asks = True
        self.fall_behind(stream, stream.channels)
        if not stream.placed.is_set():
            try:
                await asyncio.wait_for(stream.placed.wait(), timeout)
            except asyncio.TimeoutError:
                raise TimeoutError("the newest row could not be read within the deadline") from None
        if stream not in self._streams:
            raise Closed("the server stops")
        stream.begin_rows()
        self._changed.set()

    def fall_behind(self, stream: Stream, channels: Iterable[str]) -> None:
        stream.behind.update(channels)
        self._changed.set()

    def look_again(self) -> None:
        """A stream has room again."""
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            for channel, after in self._plan():
                if after is None:
                    await self._find_newest(channel)
                else:
                    await self._read(channel, after)
            await self._changed.wait()

    def _plan(self) -> Iterator[tuple[str, int | None]]:
        """Channels to be read, each with where to begin; None: find the newest row."""
        positions: dict[str, set[int | None]] = {}
        for stream in self._streams:
            for channel in stream.behind:
                at = stream.positions[channel]
                if stream.asks if at is None else stream.takes_rows:
                    positions.setdefault(channel, set()).add(at)
        for channel, found in positions.items():
            if None in found:
                yield channel, None
            numbers = found - {None}
            if numbers:
                ends = sorted(n for n in numbers if n is not None)
                yield channel, ends[0]
                if ends[-1] != ends[0]:
                    yield channel, ends[-1]

    async def _find_newest(self, channel: str) -> None:
        streams = [s for s in self._streams if s.asks and channel in s.behind and s.positions[channel] is None]
        newest = await self._attempt(channel, lambda: self._newest(channel))
        if newest is not None:
            for stream in streams:
                stream.place(channel, newest)

    async def _read(self, channel: str, after: int) -> None:
        streams = []
        for stream in self._streams:
            at = stream.positions.get(channel)
            if channel in stream.behind and at is not None and at >= after and stream.takes_rows:
                stream.behind.discard(channel)  # a wake that comes from now on is for another read
                streams.append(stream)
        if not streams:
            return
        rows = await self._attempt(channel, lambda: self._written(channel, after))
        for stream in streams:
            # The last row of a full read is not the last one there is.
            if rows is None or not self._hand_out(stream, channel, rows) or len(rows) == AT_ONCE:
                self.fall_behind(stream, [channel])

    async def _newest(self, channel: str) -> int:
        return int(await self._source.newest(channel) or 0)

    async def _written(self, channel: str, after: int) -> list[tuple[int, bytes]]:
        name = channel.encode("utf-8", "replace").decode()
        rows = []
        for number, payload in list(await self._source.after(channel, after, AT_ONCE))[:AT_ONCE]:
            data = json.dumps({"channel": name, "id": int(number), "payload": payload}, ensure_ascii=False)
            rows.append((int(number), f"event: row\ndata: {data}\n\n".encode("utf-8", "replace")))
        return rows

    def _hand_out(self, stream: Stream, channel: str, rows: list[tuple[int, bytes]]) -> bool:
        """False: there was no room for all."""
        if stream not in self._streams:
            return True
        at = stream.positions[channel]
        assert at is not None
        return all(number <= at or stream.put_row(channel, number, text) for number, text in rows)

    async def _attempt(self, channel: str, what: Callable[[], Awaitable[_T]]) -> _T | None:
        try:
            return await what()
        except Exception as error:
            _log.error("the rows of %s cannot be read: %s", channel, str(error).strip() or repr(error))
            await asyncio.sleep(_PAUSE)
            self._changed.set()
            return None

"""The browsers of one event loop, and its one listener."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Hashable, Iterable, Sequence

from ._core import Value, name_of
from ._errors import Closed, Error
from ._events import Event
from ._rows import Rows, RowSource
from .aio import Listener

_log = logging.getLogger("pgwake.sse")

HEARTBEAT = b":\n\n"
SHUTDOWN = b"event: shutdown\ndata: {}\n\n"
_MOST_AT_ONCE = 64 * 1024
_MOST_IN_A_ROW = 16 * 1024
_LEAST_OF_AN_EVENT = 64
_TURNS = 20
_TICK = 1.0


class Full(Error):
    """More browsers than there may be."""


@dataclass(frozen=True)
class Settings:
    """See pgwake.asgi.sse."""

    heartbeat: float
    write_timeout: float
    max_unsent: int
    linger: float
    reconnect: float
    max_browsers: int
    rows: RowSource | None = field(default=None, hash=False)


class Stream:
    """One browser: what it has not been sent yet."""

    def __init__(self, channels: tuple[str, ...], most: int, positions: Sequence[int] | None = None) -> None:
        self.channels = channels
        self.positions: dict[str, int | None] = dict.fromkeys(channels)
        """The last row of each channel that was put in; None: not known yet."""
        self.behind: set[str] = set()
        """Channels whose rows must be read."""
        self.asks = False
        """Its positions are wanted."""
        self.placed = asyncio.Event()
        """They are known, or it has ended."""
        if positions:
            self.positions.update(zip(channels, positions))
            self.placed.set()
        self._takes = False
        self._full = False
        """A row was refused: the next one when nothing waits any more."""
        self._extra = 0
        """What a row that is longer than may wait takes beyond the bound, until it is sent."""
        self.rows: Rows | None = None
        self._most = most
        self._waiting: deque[tuple[bytes, Hashable]] = deque()
        self._keys: set[Hashable] = set()
        self._unsent = 0
        self._changed = asyncio.Event()
        self._given_up = asyncio.Event()
        self.ended = False
        """Nothing more comes."""

    def put(self, text: bytes, key: Hashable = None, alone: bool = False) -> bool:
        """False: too much waits. A message with the same key that waits makes this one needless. ``alone``: where
        nothing waits, it may be of any length."""
        if key is not None and key in self._keys:
            return True
        if self._unsent == 0:
            self._extra = len(text) if alone and len(text) > self._most else 0
        if self._unsent + len(text) > self._most + self._extra:
            return False
        self._waiting.append((text, key))
        self._unsent += len(text)
        if key is not None:
            self._keys.add(key)
        self._changed.set()
        return True

    def place(self, channel: str, newest: int) -> None:
        self.positions[channel] = newest
        if None not in self.positions.values():
            self.placed.set()

    def begin_rows(self) -> None:
        self._takes = True
        name = self._event_id
        self.put(f'id: {name}\nevent: start\ndata: {{"id": "{name}"}}\n\n'.encode())

    @property
    def takes_rows(self) -> bool:
        """Only while little waits: the rest is for wakes, so that who catches up is not dropped."""
        return self._takes and (self._unsent == 0 if self._full else self._unsent * 2 <= self._most)

    def put_row(self, channel: str, number: int, text: bytes) -> bool:
        """False: too much waits."""
        if not self.takes_rows:
            return False
        before = self.positions[channel]
        self.positions[channel] = number
        # One that is longer than may wait is sent alone.
        whole = f"id: {self._event_id}\n".encode() + text
        self._full = not self.put(whole, alone=True)
        if self._full:
            self.positions[channel] = before
        return not self._full

    @property
    def _event_id(self) -> str:
        """What a browser sends as Last-Event-ID."""
        return ",".join(map(str, self.positions.values()))

    def end(self) -> None:
        self.ended = True
        self.placed.set()
        self._changed.set()

    def give_up(self) -> None:
        self._given_up.set()

    async def given_up(self) -> None:
        await self._given_up.wait()

    @property
    def dropped(self) -> bool:
        """It did not read."""
        return self._given_up.is_set()

    @property
    def filling(self) -> bool:
        return self._unsent * 4 > self._most

    def sent(self, count: int) -> None:
        """What take() gave is no longer held by anybody."""
        self._unsent -= count
        if self.behind and self.rows is not None:
            self.rows.look_again()

    async def take(self, patience: float) -> bytes:
        """What waits, or a heartbeat after so long; nothing: it has ended."""
        if not self._waiting and not self.ended:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), patience)
            except asyncio.TimeoutError:
                self.put(HEARTBEAT)
        out = bytearray()
        while self._waiting and len(out) < _MOST_AT_ONCE:
            text, key = self._waiting.popleft()
            self._keys.discard(key)
            out += text
        return bytes(out)


class Fanout:
    """One task takes events; each browser's own task sends, so that a slow one holds up itself alone."""

    def __init__(self, settings: Settings, options: dict[str, Value]) -> None:
        self.pid = os.getpid()
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._listener = Listener(**options)  # type: ignore[arg-type]
        self._streams: set[Stream] = set()
        self._members: dict[str, set[Stream]] = {}
        self._idle: dict[str, float] = {}  # channel => since when nobody wants it
        self._rows = None if settings.rows is None else Rows(settings.rows, self._streams)
        jobs = [self._read(), self._look_after()] + ([] if self._rows is None else [self._run(self._rows)])
        self._tasks = [asyncio.ensure_future(job) for job in jobs]
        self.ended = False

    async def enter(self, channels: Iterable[str], timeout: float, positions: Sequence[int] | None = None) -> Stream:
        """Returns once every notification committed from now on will reach the stream, and every row after the
        positions, which are those of the last row of each channel that the browser has."""
        until = self._loop.time() + timeout
        if self.ended:
            raise Closed("the server stops")
        if len(self._streams) >= self._settings.max_browsers:
            raise Full(f"{len(self._streams)} browsers are here already")
        channels = tuple(channels)
        for channel in channels:
            name_of(channel)  # raises before anybody waits for it
        stream = Stream(channels, self._settings.max_unsent, positions)
        stream.rows = self._rows
        # Browsers that lost one server at the same moment come back one after another.
        stream.put(b"retry: %d\n\n" % (self._settings.reconnect * random.uniform(500, 1500)))
        self._streams.add(stream)
        for channel in stream.channels:
            self._members.setdefault(channel, set()).add(stream)
            self._idle.pop(channel, None)
        try:
            missing = [c for c in stream.channels if c not in self._listener._core.channels]
            if missing:
                await self._listener.subscribe(*missing, timeout=timeout)
            if self._rows is not None:
                await self._rows.place(stream, until - self._loop.time())
        except BaseException:
            self.leave(stream)
            raise
        return stream

    def leave(self, stream: Stream) -> None:
        if stream not in self._streams:
            return
        self._streams.remove(stream)
        stream.end()
        for channel in stream.channels:
            rest = self._members[channel]
            rest.discard(stream)
            if not rest:
                del self._members[channel]
                self._idle[channel] = self._loop.time()

    def close(self) -> None:
        """Ends all responses; each sends what waits."""
        if self.ended:
            return
        self.ended = True
        for stream in list(self._streams):
            stream.put(SHUTDOWN)
            self.leave(stream)
        self._listener.close()
        if not self._loop.is_closed():
            for task in self._tasks:
                task.cancel()

    async def _read(self) -> None:
        handed = 0
        try:
            async for e in self._listener:
                if e.kind == "wake":
                    # One that nobody takes counts as well, or a backlog of them would hold the loop.
                    handed += max(_LEAST_OF_AN_EVENT, self._hand_out(e))
                    if handed > _MOST_IN_A_ROW:
                        handed = 0
                        await self._give_way()
                elif e.kind == "refused":
                    _log.error("%s is refused now: %s", e.channel, e.reason)
                    for stream in list(self._members.get(e.channel, ())):
                        self.leave(stream)
        except Exception:
            # The browsers come again, to another one.
            _log.exception("the streams of this event loop end")
            self.close()

    async def _run(self, rows: Rows) -> None:
        try:
            await rows.run()
        except Exception:
            # Or the browsers would wait for rows that nobody reads.
            _log.exception("the streams of this event loop end")
        finally:
            self.close()

    async def _give_way(self) -> None:
        """What waits gets its chance to be sent: some turns of the loop, however slow a browser is."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            if not any(stream.filling for stream in self._streams):
                break

    def _hand_out(self, e: Event) -> int:
        streams = self._members.get(e.channel)
        if not streams:
            return 0
        if self._rows is not None and e.data is None:
            for stream in streams:
                self._rows.fall_behind(stream, [e.channel])
            if not e.gap:
                return 0
        name = "resync" if e.gap else "wake"
        data = {"channel": e.channel.encode("utf-8", "replace").decode()}
        if e.gap:
            data["cause"] = e.gap
        if e.data is not None:
            data["payload"] = e.payload
        text = f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
        key = (name, e.channel) if e.data is None else None
        for stream in list(streams):
            if not stream.put(text, key):
                self.drop(stream, "a browser that does not read is dropped (%s)")
        return len(text)

    def drop(self, stream: Stream, why: str) -> None:
        if not stream.dropped:
            _log.warning(why, ", ".join(stream.channels[:3]))
            stream.give_up()
            self.leave(stream)

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            until = self._loop.time() - self._settings.linger
            for channel in [c for c, since in self._idle.items() if since <= until]:
                del self._idle[channel]
                try:
                    await self._listener.unsubscribe(channel)
                except Exception:
                    _log.exception("%s stays subscribed", channel)

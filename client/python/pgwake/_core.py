"""One handle of the library without any waiting: what the blocking, asyncio and trio faces share."""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from datetime import timedelta
from typing import Any, Callable, Iterable, Union

from ._backlog import Backlog
from ._errors import Closed, Error, Forked, Invalid
from ._events import NAME_ERRORS, Event, State, unpack
from ._native import CLOSED, FORKED, INVALID, OK, SYSTEM, error_of, library

Value = Union[str, int, bool, timedelta, "os.PathLike[str]"]

_ROOM = 64 * 1024


def milliseconds(timeout: float | None) -> int:
    """Seconds as the library's milliseconds; None: for ever."""
    if timeout is None:
        return -1
    if timeout != timeout:
        raise Invalid("a timeout is not a number")
    return min(0x7FFFFFFF, max(0, round(timeout * 1000)))


def name_of(channel: str) -> bytes:
    """A channel's name as the library takes it."""
    if not isinstance(channel, str):
        raise TypeError(f"a channel is a str, not {type(channel).__name__}")
    try:
        raw = channel.encode("utf-8", NAME_ERRORS)
    except UnicodeEncodeError as error:
        raise Invalid(f"{channel!r}: a channel's name is written in UTF-8") from error
    if b"\0" in raw:
        raise Invalid(f"{channel!r}: a channel's name holds no NUL")
    return raw


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, timedelta):
        return f"{round(value.total_seconds() * 1000)}ms"
    return str(os.fspath(value)) if isinstance(value, os.PathLike) else str(value)


class Pending:
    """A subscribe that waits for its answers."""

    __slots__ = ("count", "failed", "on_end")

    def __init__(self, count: int, on_end: Callable[[], None] | None = None) -> None:
        self.count = count
        self.failed: Error | None = None
        self.on_end = on_end

    @property
    def done(self) -> bool:
        return self.count == 0

    def end(self, failed: Error | None) -> None:
        self.count = 0
        self.failed = self.failed or failed
        if self.on_end is not None:
            self.on_end()


class Core:
    """A handle and what was read from it. The caller sees to it that one thread at a time is inside."""

    def __init__(self, options: dict[str, Value | None], reopen: str, ignore_environment: bool) -> None:
        if reopen not in ("auto", "manual"):
            raise Invalid('reopen: write "auto" or "manual"')
        self._lib = library()
        self._manual = reopen == "manual"
        self._handle = ctypes.c_void_p()
        self._open(options, ignore_environment)
        # Not at the end of the process: a thread may still be inside then, and the kernel cleans up as well.
        weakref.finalize(self, self._lib.close, self._handle).atexit = False
        self._buffer = ctypes.create_string_buffer(_ROOM)
        self._view = memoryview(self._buffer).cast("B")
        self._used = ctypes.c_size_t()
        self._used_ref = ctypes.byref(self._used)
        self._next_id = 0
        self._pending: dict[int, Pending] = {}
        self.channels: set[str] = set()
        self.backlog = Backlog()
        self.closed = False
        self.pid = os.getpid()
        self.fd = self._answer(self._lib.fd(self._handle))

    def _open(self, given: dict[str, Value | None], ignore_environment: bool) -> None:
        options = self._lib.options_new()
        if not options:
            raise MemoryError
        try:
            if ignore_environment:
                self._lib.options_ignore_environment(options)
            for key, value in given.items():
                if value is None:
                    continue
                text = os.fsencode(_written(value))
                if b"\0" in text:
                    raise Invalid(f"{key}: holds a NUL")
                self._answer(self._lib.options_set(options, key.encode(), text))
            self._answer(self._lib.open(ctypes.byref(self._handle), options))
        finally:
            self._lib.options_free(options)

    def _answer(self, result: int) -> int:
        if result < 0:
            raise error_of(result, self._lib.why())
        return result

    # The life of a process

    def forked(self) -> bool:
        """Whether this is a child of the process that opened the handle."""
        return os.getpid() != self.pid

    def come_over(self, by_hand: bool = False) -> None:
        """In a child: opens the handle anew with what was subscribed; a gap on each channel follows."""
        if self.closed:
            raise Closed("the listener is closed")
        if self._manual and not by_hand:
            raise Forked("the listener was opened before fork(); call its reopen() in the child")
        self.backlog.clear()
        self._end_pending(Forked("the process forked meanwhile"))
        result = self._lib.reopen_subscribed(self._handle)
        if result == SYSTEM:
            self._answer(self._lib.reopen(self._handle))
            if self.channels:
                self.subscribe(self.channels, None)
        elif result != INVALID:  # the handle is this process's already: it was reopened behind our back
            self._answer(result)
        self.pid = os.getpid()
        self.fd = self._answer(self._lib.fd(self._handle))

    def shut(self) -> None:
        """Whoever polls the descriptor wakes up. What comes later raises Closed."""
        if not self.closed:
            self.closed = True
            self._lib.shutdown(self._handle)
            self._end_pending(Closed("the listener was closed"))

    def free(self) -> None:
        """After shut(), when nobody is inside any more."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        value = handle.value
        handle.value = None  # the finalizer has nothing to do
        self._lib.close(ctypes.c_void_p(value))

    def _end_pending(self, why: Error) -> None:
        pending, self._pending = self._pending, {}
        for one in pending.values():
            one.end(why)

    # Channels

    def subscribe(
        self, channels: Iterable[str], timeout: float | None, on_end: Callable[[], None] | None = None
    ) -> Pending:
        """Starts it. The answers come through pump()."""
        self._check()
        names = [name_of(c) for c in channels]
        self._next_id += 1
        pending = Pending(len(names), on_end)
        if names:
            array = (ctypes.c_char_p * len(names))(*names)
            self._answer(
                self._lib.subscribe_start(self._handle, array, len(names), milliseconds(timeout), self._next_id)
            )
            self._pending[self._next_id] = pending
        return pending

    def abandon(self, pending: Pending) -> None:
        """Nobody waits for its answers any more."""
        for number, other in list(self._pending.items()):
            if other is pending:
                del self._pending[number]

    def unsubscribe(self, channels: Iterable[str]) -> None:
        self._check()
        for channel in channels:
            self._answer(self._lib.unsubscribe(self._handle, name_of(channel)))
            self.channels.discard(channel)
            self.backlog.forget(channel)

    # Events

    def pump(self) -> bool:
        """Reads what waits in the library, one batch at most. False: nothing did."""
        if self.closed:
            return False
        count = self._lib.read(self._handle, self._buffer, len(self._buffer), self._used_ref, 0, 0)
        if count == INVALID and self._used.value:  # an event larger than the buffer
            self._view.release()
            self._buffer = ctypes.create_string_buffer(self._used.value)
            self._view = memoryview(self._buffer).cast("B")
            return self.pump()
        if count <= 0:
            if count in (FORKED, CLOSED):
                return False  # seen at the next call
            self._answer(count)
            return False
        events = unpack(self._view, self._used.value)
        if not self._pending and not self.backlog:
            if all(e.kind == "wake" for e in events):
                self.backlog.fill(events)
                return True
        for e in events:
            if e.kind == "subscribed":  # type: ignore[comparison-overlap]
                self._settle(e)
            else:
                if e.kind == "refused":
                    self.channels.discard(e.channel)
                self.backlog.push(e)
        return True

    def _settle(self, e: Event) -> None:
        if e.result == OK:
            self.channels.add(e.channel)
        pending = self._pending.get(e.id)
        if pending is None:
            return
        if e.result != OK and pending.failed is None:
            pending.failed = error_of(e.result, e.reason or "no answer within the deadline", e.channel)
        pending.count -= 1
        if pending.count == 0:
            del self._pending[e.id]
            pending.end(None)

    def state(self) -> State:
        self._check()
        room = ctypes.create_string_buffer(8 * 1024)
        self._answer(self._lib.state_json(self._handle, room, len(room)))
        said: dict[str, Any] = json.loads(room.value)
        return State(**{key: said[key] for key in State._fields})

    def _check(self) -> None:
        if self.closed:
            raise Closed("the listener is closed")

"""The face for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from types import TracebackType
from typing import Any, Awaitable, Callable

from ._errors import Closed, TimeoutError
from ._events import Event, State
from ._face import AsyncFace

Callback = Callable[["Listener", int, str, str], Any]


class Listener(AsyncFace):
    """As ``pgwake.Listener``, for one event loop; opening never waits. ``async for event in listener`` hands out
    all events but those of channels with a callback of their own."""

    def _begin(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._callbacks: dict[str, list[Callback]] = {}
        self._running: set[asyncio.Future[Any]] = set()

    # Channels

    async def subscribe(self, *channels: str, timeout: float | None = 10) -> None:
        """As ``pgwake.Listener.subscribe``."""
        loop = self._inside()
        ended: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        pending = self._core.subscribe(channels, timeout, end)
        try:
            if not pending.done:
                await asyncio.wait_for(ended, None if timeout is None else timeout + 1)
        except asyncio.TimeoutError:
            raise TimeoutError("subscribe: no answer within the deadline") from None
        finally:
            self._core.abandon(pending)
        if pending.failed is not None:
            raise pending.failed

    async def unsubscribe(self, *channels: str) -> None:
        """Ends subscriptions, and their callbacks. No wake of these channels is handed out after it."""
        self._inside()
        for channel in channels:
            self._callbacks.pop(channel, None)
        self._core.unsubscribe(channels)

    async def add_listener(self, channel: str, callback: Callback, *, timeout: float | None = 10) -> None:
        """Subscribes, and calls ``callback(listener, pid, channel, payload)`` for each wake of the channel, as
        asyncpg does; it may be a coroutine function. A wake without payload and a gap have the payload ""."""
        callbacks = self._callbacks.setdefault(channel, [])
        callbacks.append(callback)
        try:
            await self.subscribe(channel, timeout=timeout)
        except BaseException:
            callbacks.remove(callback)
            if not callbacks:
                self._callbacks.pop(channel, None)
            raise

    async def remove_listener(self, channel: str, callback: Callback) -> None:
        """Takes the callback back; the last one ends the subscription."""
        callbacks = self._callbacks.get(channel, [])
        if callback in callbacks:
            callbacks.remove(callback)
            if not callbacks:
                await self.unsubscribe(channel)

    # Events

    async def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None when ``timeout`` seconds have passed."""
        loop = self._inside()
        if not self._core.backlog:
            self._readable()
        until = None if timeout is None else loop.time() + timeout
        while not self._core.backlog:
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                return None
            waiter = loop.create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait_for(waiter, left)
            except asyncio.TimeoutError:
                return None
            except BaseException:
                self._wake()  # it may have been this one's turn
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self._core.backlog.pop()

    # What is going on

    @property
    def state(self) -> State:
        self._come_over()
        return self._core.state()

    def reopen(self) -> None:
        """In a forked child: opens it anew with what was subscribed. Elsewhere it does nothing."""
        self._come_over(by_hand=True)

    def close(self) -> None:
        """Ends everything; what waits raises Closed. May be called again."""
        if self._core.closed:
            return
        if self._loop is not None and not self._core.forked() and not self._loop.is_closed():
            self._loop.remove_reader(self._core.fd)
        self._core.shut()
        self._core.free()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(Closed("the listener was closed"))

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> Listener:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Inside

    def _come_over(self, by_hand: bool = False) -> None:
        if self._core.forked():
            # The parent's loop is not touched: its epoll descriptor is the parent's as well.
            self._loop = None
            self._waiters.clear()
            self._core.come_over(by_hand)

    def _inside(self) -> asyncio.AbstractEventLoop:
        self._come_over()
        if self._core.closed:
            raise Closed("the listener is closed")
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._core.fd)
            self._loop = loop
            loop.add_reader(self._core.fd, self._readable)
        return loop

    def _readable(self) -> None:
        if not self._core.pump():
            return
        if self._callbacks:
            self._call_back()
        self._wake()

    def _call_back(self) -> None:
        backlog = self._core.backlog
        for _ in range(len(backlog)):
            e = backlog.pop()
            callbacks = self._callbacks.get(e.channel) if e.kind == "wake" else None
            if not callbacks:
                backlog.push(e)
                continue
            for callback in list(callbacks):
                self._call(callback, e)

    def _call(self, callback: Callback, e: Event) -> None:
        try:
            result = callback(self, e.pid, e.channel, e.payload)
            if inspect.isawaitable(result):
                self._keep(result)
        except Exception as error:
            assert self._loop is not None
            self._loop.call_exception_handler(
                {"message": f"a callback of the channel {e.channel!r} failed", "exception": error}
            )

    def _keep(self, result: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(result)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _wake(self) -> None:
        count = len(self._core.backlog)
        while count > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

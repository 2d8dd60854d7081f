"""The face for trio."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Callable

import trio  # type: ignore[import]

from ._errors import Closed, TimeoutError
from ._events import Event, State
from ._face import AsyncFace


class Listener(AsyncFace):
    """As ``pgwake.Listener``, for tasks of trio; opening never waits. Cancelling a call loses nothing."""

    def _begin(self) -> None:
        self._new_lot()

    def _new_lot(self) -> None:
        self._lot = trio.lowlevel.ParkingLot()
        self._polling = False

    async def subscribe(self, *channels: str, timeout: float | None = 10) -> None:
        """As ``pgwake.Listener.subscribe``."""
        self._inside()
        pending = self._core.subscribe(channels, timeout)
        try:
            with trio.move_on_after(math.inf if timeout is None else timeout + 1):
                await self._wait(lambda: pending.done)
        finally:
            self._core.abandon(pending)
        if pending.failed is not None:
            raise pending.failed
        if not pending.done:
            raise TimeoutError("subscribe: no answer within the deadline")

    async def unsubscribe(self, *channels: str) -> None:
        """Ends subscriptions. No wake of these channels is handed out after it."""
        await trio.lowlevel.checkpoint()
        self._inside()
        self._core.unsubscribe(channels)

    async def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None when ``timeout`` seconds have passed."""
        self._inside()
        backlog = self._core.backlog
        with trio.move_on_after(math.inf if timeout is None else timeout):
            await self._wait(lambda: len(backlog) > 0)
            return backlog.pop()
        return None

    @property
    def state(self) -> State:
        self._inside()
        return self._core.state()

    def reopen(self) -> None:
        """In a forked child: opens it anew with what was subscribed. Elsewhere it does nothing."""
        if self._core.forked():
            self._new_lot()
            self._core.come_over(by_hand=True)

    def close(self) -> None:
        """Ends everything; what waits raises Closed. May be called again."""
        if self._core.closed:
            return
        self._core.shut()
        if not self._core.forked():
            try:
                trio.lowlevel.notify_closing(self._core.fd)
                self._lot.unpark_all()
            except RuntimeError:
                pass  # trio does not run any more: nobody waits
        self._core.free()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Listener:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _inside(self) -> None:
        if self._core.forked():
            self._new_lot()
            self._core.come_over()
        if self._core.closed:
            raise Closed("the listener is closed")

    async def _wait(self, ready: Callable[[], bool]) -> None:
        """One task waits for the descriptor, the others for that task: if they read meanwhile, the descriptor could
        be quiet again before that one looks at it."""
        await trio.lowlevel.checkpoint_if_cancelled()
        waited = False
        while True:
            if self._core.closed:
                raise Closed("the listener was closed")
            while not ready() and not self._polling and self._core.pump():
                self._lot.unpark_all()
            if ready():
                if not waited:
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    if not ready():  # another task took it meanwhile
                        continue
                return
            waited = True
            if self._polling:
                await self._lot.park()
                continue
            self._polling = True
            try:
                await trio.lowlevel.wait_readable(self._core.fd)
            except trio.ClosedResourceError:
                continue
            finally:
                self._polling = False
                self._lot.unpark_all()

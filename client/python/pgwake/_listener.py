"""The blocking face. It waits on the descriptor and never inside the library, so that signals, other threads and
forks are as with any other Python code."""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from types import TracebackType
from typing import Callable, Iterator

from ._errors import Closed
from ._events import Event, State
from ._face import Face
from ._errors import TimeoutError as PgwakeTimeout


class Listener(Face):
    """Receives PostgreSQL notifications through the host's hub (``pgwaked``), and through a LISTEN connection of
    its own while the hub is away. Opening never waits for the network.

    ``socket``, ``database``, ``name``, ``policy`` and all other keywords are the options of docs/client.md, such
    as ``poll_interval="500ms"``; durations may be ``timedelta``. In a forked child the listener opens itself
    anew with what was subscribed, and a gap ``forked`` comes on each channel; with ``reopen="manual"`` every
    call raises Forked there until ``reopen()``.

    Any thread may use it, and several at once: an event goes to one of those that wait.
    """

    def _begin(self) -> None:
        self._outside: _Readiness | None = None
        self._new_locks()
        _listeners.add(self)

    def _new_locks(self) -> None:
        # Reentrant, for signal handlers that close the listener.
        self._turn = threading.Condition(threading.RLock())
        self._turn_of = os.getpid()
        self._poller: int | None = None  # the thread that polls
        if self._outside is not None:
            self._outside.close()
            self._outside = None

    # Channels

    def subscribe(self, *channels: str, timeout: float | None = 10) -> None:
        """Returns once every notification committed from now on is delivered, or a gap on that channel is.

        Raises Refused or TimeoutError for the first channel that is not subscribed; the others are. While nobody
        serves, the policies ``poll`` and ``none`` return at once.
        """
        with self._inside():
            pending = self._core.subscribe(channels, timeout)
            try:
                # The library answers at the deadline; this much later nobody waits for it any more.
                grace = None if timeout is None else timeout + 1
                if not self._wait(lambda: pending.done, grace):
                    raise PgwakeTimeout("subscribe: no answer within the deadline")
            finally:
                self._core.abandon(pending)
                self._tell_outside()  # events that came before the answer
            if pending.failed is not None:
                raise pending.failed

    def unsubscribe(self, *channels: str) -> None:
        """Ends subscriptions; waits for nobody. No wake of these channels is handed out after it."""
        with self._inside():
            self._core.unsubscribe(channels)
            self._tell_outside()

    # Events

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None when ``timeout`` seconds have passed. Without one it waits for ever."""
        with self._inside():
            backlog = self._core.backlog
            if not backlog and not self._wait(lambda: len(backlog) > 0, timeout):
                return None
            e = backlog.pop()
            if self._outside is not None:
                self._tell_outside()
            return e

    def __iter__(self) -> Iterator[Event]:
        """All events, for ever; ends when the listener is closed."""
        while True:
            try:
                e = self.next()
            except Closed:
                return
            if e is not None:
                yield e

    def drain(self, maximum: int | None = None) -> list[Event]:
        """All that waits, at most ``maximum``; waits for nothing."""
        with self._inside():
            out: list[Event] = []
            backlog = self._core.backlog
            # As much as waits now, and no more: a stream that never ends must not keep this thread for ever.
            most = len(backlog) + self._core.state().waiting if maximum is None else maximum
            while len(out) < most and (len(backlog) or self._wait(lambda: len(backlog) > 0, 0)):
                out += backlog.take(most - len(out))
            self._tell_outside()
            return out

    def notifies(self, *, timeout: float | None = None, stop_after: int | None = None) -> Iterator[Event]:
        """Wakes alone, as ``psycopg.Connection.notifies()`` has them: ``channel``, ``payload`` and ``pid``.

        A gap is among them, with an empty payload and ``read_again`` true: it stands for notifications that may
        have been missed.
        """
        until = None if timeout is None else time.monotonic() + timeout
        count = 0
        while stop_after is None or count < stop_after:
            left = None if until is None else until - time.monotonic()
            if left is not None and left < 0:
                left = 0.0
            e = self.next(left)
            if e is None:
                return
            if e.kind == "wake":
                count += 1
                yield e

    def fileno(self) -> int:
        """A descriptor that is readable while events wait, for selectors. Only look at its readiness. Another one
        after a fork."""
        with self._inside():
            if self._outside is None:
                self._outside = _Readiness(self._core.fd)
                self._tell_outside()
            return self._outside.fileno()

    # What is going on

    @property
    def state(self) -> State:
        """A snapshot: who serves, what was counted."""
        with self._inside():
            return self._core.state()

    def reopen(self) -> None:
        """In a forked child: opens it anew with what was subscribed. Elsewhere it does nothing."""
        if self._core.forked():
            self._over(by_hand=True)

    def close(self) -> None:
        """Ends everything; calls that wait elsewhere raise Closed. May be called again."""
        if self._turn_of != os.getpid():
            self._new_locks()
        with self._turn:
            if self._core.closed:
                return
            self._core.shut()
            self._turn.notify_all()
            while self._poller not in (None, threading.get_ident()):
                self._turn.wait()
            if self._poller is None:  # else a signal handler closes what it has interrupted: see _wait()
                self._core.free()
            if self._outside is not None:
                self._outside.close()
                self._outside = None

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Inside

    def _over(self, by_hand: bool = False) -> None:
        # The parent's locks may be held here, by threads that do not exist.
        if self._turn_of != os.getpid():
            self._new_locks()
        with self._turn:
            if self._core.forked():
                self._core.come_over(by_hand)

    def _inside(self) -> threading.Condition:
        if self._core.pid != os.getpid():
            self._over()
        if self._core.closed:
            raise Closed("the listener is closed")
        return self._turn

    def _wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Until it is ready; holds the lock but while it waits. One thread polls, the others wait for it: if they
        read meanwhile, the descriptor could be quiet again before that one looks at it."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            mine = self._poller in (None, threading.get_ident())  # the latter: in a signal handler
            while not ready() and mine and self._core.pump():
                self._turn.notify_all()
            if ready():
                return True
            if self._core.closed:
                self._core.free()
                raise Closed("the listener was closed")
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return False
            if self._poller is not None:
                self._turn.wait(left)
                continue
            self._tell_outside()
            self._poller = threading.get_ident()
            turn = self._turn
            turn.release()
            try:
                _poll(self._core.fd, left)
            finally:
                turn.acquire()
                self._poller = None
                turn.notify_all()
            if self._core.pid != os.getpid():  # a signal handler has forked, and this is the child
                self._over()

    def _tell_outside(self) -> None:
        if self._outside is not None:
            self._outside.set(len(self._core.backlog) > 0)


def _poll(fd: int, timeout: float | None) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(None if timeout is None else max(1, round(timeout * 1000)))


def _after_fork_in_child() -> None:
    for listener in list(_listeners):
        listener._new_locks()


# A help alone: some servers fork without Python's hooks, so every call looks at the process id as well.
_listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
os.register_at_fork(after_in_child=_after_fork_in_child)


class _Readiness:
    """A descriptor that is readable while another one is, or while it was told to be."""

    def __init__(self, fd: int) -> None:
        self._epoll = select.epoll()
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)
        self._told = False
        self._epoll.register(fd, select.EPOLLIN)
        self._epoll.register(self._out, select.EPOLLIN)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def set(self, readable: bool) -> None:
        if readable and not self._told:
            os.write(self._in, b"1")
        elif self._told and not readable:
            os.read(self._out, 1)
        self._told = readable

    def close(self) -> None:
        if not self._epoll.closed:
            self._epoll.close()
            os.close(self._in)
            os.close(self._out)

    __del__ = close

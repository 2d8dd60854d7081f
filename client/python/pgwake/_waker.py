"""For programs that look for work now and then, and would rather be told."""

from __future__ import annotations

import time
from types import TracebackType

from ._core import Value
from ._errors import TimeoutError
from ._listener import Listener


class Waker:
    """Waits until there may be work: a notification on one of the channels, or one that may have been missed.

    >>> waker = pgwake.Waker("jobs")  # doctest: +SKIP
    >>> while True:
    ...     while work_one_job():
    ...         pass
    ...     waker.wait(30)

    Without hub and database ``wait`` only sleeps, so the program goes on looking every now and then. Keywords are
    the options of ``pgwake.Listener``.
    """

    def __init__(self, *channels: str, **options: Value) -> None:
        self._channels = channels
        self._listener = Listener(**options)  # type: ignore[arg-type]

    def wait(self, timeout: float | None = None) -> bool:
        """True: look for work; what was announced until now is done with that. False: ``timeout`` seconds have passed.

        The first call that gets through to listening answers True at once, for what was committed before. Raises
        Refused if a channel is.
        """
        until = None if timeout is None else time.monotonic() + timeout
        if not self._listener.channels.issuperset(self._channels):
            try:
                self._listener.subscribe(*self._channels, timeout=timeout)
            except TimeoutError:
                return False
            self._listener.drain()
            return True
        while True:
            e = self._listener.next(None if until is None else max(0, until - time.monotonic()))
            if e is None:
                return False
            if e.kind == "wake":
                self._listener.drain()
                return True

    def close(self) -> None:
        """A wait() elsewhere raises Closed."""
        self._listener.close()

    def __enter__(self) -> Waker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""Events that were read and not taken yet."""

from __future__ import annotations

from collections import deque

from ._events import Event, overflow

MAX_BYTES = 64 << 20


class Backlog:
    """A queue with the library's own rules, for what was read before somebody asked for it.

    Wakes without payload that wait merge; one state waits, the latest; payloads beyond ``max_bytes`` are
    discarded, and a gap says so.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._events: deque[Event] = deque()
        self._max = max_bytes
        self._bytes = 0
        self._durable: dict[str, Event] = {}
        self._overflowed: set[str] = set()
        self._state: Event | None = None
        self._plain = False  # as fill() has left it: nothing is counted, nothing can merge

    def __len__(self) -> int:
        return len(self._events)

    def fill(self, events: list[Event]) -> None:
        """One batch into an empty queue: nothing can merge that the library has not merged."""
        self._events.extend(events)
        self._plain = True

    def push(self, e: Event) -> None:
        self._plain = False
        if e.kind == "state":
            if self._state is not None:
                self._events.remove(self._state)
            self._state = e
        elif e.data is not None:
            size = len(e.data) + len(e.channel)
            if self._bytes + size > self._max:
                if e.channel not in self._overflowed:
                    self._overflowed.add(e.channel)
                    self._durable.pop(e.channel, None)
                    self._events.append(overflow(e.channel))
                return
            self._bytes += size
        elif e.gap:
            self._durable.pop(e.channel, None)
        elif e.kind == "wake":
            waiting = self._durable.get(e.channel)
            if waiting is not None:
                if waiting.pid != e.pid:
                    waiting.pid = 0
                return
            self._durable[e.channel] = e
        self._events.append(e)

    def pop(self) -> Event:
        e = self._events.popleft()
        if not self._events:
            self._reset()
        elif e.data is not None:
            self._bytes = max(0, self._bytes - len(e.data) - len(e.channel))
        elif e is self._state:
            self._state = None
        elif e.gap == "overflow":
            self._overflowed.discard(e.channel)
        elif self._durable.get(e.channel) is e:
            del self._durable[e.channel]
        return e

    def take(self, most: int) -> list[Event]:
        """Several at once."""
        one = self._events.popleft if self._plain else self.pop
        out = [one() for _ in range(min(most, len(self._events)))]
        if not self._events:
            self._reset()
        return out

    def forget(self, channel: str) -> None:
        """Drops the wakes of a channel."""
        kept = [e for e in self._events if e.kind != "wake" or e.channel != channel]
        if len(kept) == len(self._events):
            return
        self._events = deque(kept)
        self._durable.pop(channel, None)
        self._overflowed.discard(channel)
        self._bytes = sum(len(e.data) + len(e.channel) for e in kept if e.data is not None)

    def clear(self) -> None:
        self._events.clear()
        self._reset()

    def _reset(self) -> None:
        self._bytes = 0
        self._durable.clear()
        self._overflowed.clear()
        self._state = None

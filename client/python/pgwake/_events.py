"""Events, and the records that the library packs them into."""

from __future__ import annotations

import struct
from typing import Literal, NamedTuple

Kind = Literal["wake", "state", "refused"]
Source = Literal["none", "hub", "own"]
Gap = Literal["", "reconnect", "hub_lost", "overflow", "forked"]

_KINDS = ("", "wake", "state", "refused", "subscribed")
_SOURCES = ("none", "hub", "own")
_GAPS = ("", "reconnect", "hub_lost", "overflow", "forked")

# struct pgwake_record of pgwake.h
_RECORD = struct.Struct("=IiiiiIiIIIQ")
_PAYLOAD = 1
_HEALTHY = 2

# Names that are not UTF-8 (a SQL_ASCII database) survive the way there and back.
NAME_ERRORS = "surrogateescape"


class Event:
    """One event. What a wake of a channel means: "something changed"; with a payload, this message."""

    __slots__ = ("channel", "data", "gap", "healthy", "id", "kind", "pid", "reason", "result", "source")

    kind: Kind
    """``wake``; ``state``: who serves this listener, or how well, has changed; ``refused``: a channel that was
    subscribed is refused now."""
    source: Source
    """Where it came from, or of a state who serves now."""
    gap: Gap
    """Not empty: notifications on this channel may have been missed, and this is why."""
    pid: int
    """Process id of the PostgreSQL backend that notified; 0: unknown or several."""
    healthy: bool
    """Of a state: everything subscribed is being served."""
    channel: str
    data: bytes | None
    """The payload's bytes; None: there is none."""
    reason: str
    """Of a state or a refusal, for people."""
    id: int
    result: int

    @property
    def payload(self) -> str:
        """The payload as text, "" if there is none; bytes that are not UTF-8 are replaced."""
        return "" if self.data is None else self.data.decode("utf-8", "replace")

    @property
    def read_again(self) -> bool:
        """A wake without payload, or a gap: read again whatever the channel stands for."""
        return self.data is None and self.kind == "wake"

    def __repr__(self) -> str:
        parts: list[str] = [self.kind]
        if self.channel:
            parts.append(repr(self.channel))
        if self.data is not None:
            parts.append(f"payload of {len(self.data)} bytes")
        if self.gap:
            parts.append(f"gap={self.gap}")
        if self.kind == "state":
            parts.append(f"source={self.source} healthy={self.healthy}")
        if self.reason:
            parts.append(f"reason={self.reason!r}")
        return f"<pgwake.Event {' '.join(parts)}>"


def overflow(channel: str) -> Event:
    """The gap that stands for payloads that were thrown away."""
    e = Event()
    e.kind, e.source, e.gap, e.pid, e.healthy = "wake", "none", "overflow", 0, False
    e.channel, e.data, e.reason, e.id, e.result = channel, None, "", 0, 0
    return e


def unpack(buffer: memoryview, used: int) -> list[Event]:
    """The events in a buffer that pgwake_read() has filled."""
    out = []
    at = 0
    take = _RECORD.unpack_from
    new = Event.__new__
    while at < used:
        size, kind, source, gap, pid, flags, result, n, m, k, number = take(buffer, at)
        e = new(Event)
        e.kind = _KINDS[kind] if kind < 5 else ""  # type: ignore[assignment]
        e.source = _SOURCES[source]  # type: ignore[assignment]
        e.gap = _GAPS[gap] if gap < 5 else "reconnect"  # type: ignore[assignment]
        e.pid = pid
        e.healthy = flags & _HEALTHY != 0
        start = at + 48
        end = start + n
        e.channel = str(buffer[start:end], "utf-8", NAME_ERRORS)
        start = end + 1
        end = start + m
        e.data = bytes(buffer[start:end]) if flags & _PAYLOAD else None
        e.reason = str(buffer[end + 1 : end + 1 + k], "utf-8", "replace") if k else ""
        e.id = number
        e.result = result
        out.append(e)
        at += size
    return out


class State(NamedTuple):
    """A snapshot, as pgwake_state of pgwake.h."""

    source: Source
    healthy: bool
    handing_over: bool
    own_slot: bool
    channels: int
    waiting: int
    waiting_bytes: int
    wakes: int
    coalesced: int
    discarded: int
    gaps: int
    falls: int
    handovers: int
    handovers_aborted: int
    hub_connects: int
    own_connects: int
    reason: str
    hub: str

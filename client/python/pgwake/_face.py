"""What the blocking, asyncio and trio listeners have in common."""

from __future__ import annotations

import os
from typing import TypeVar

from ._core import Core, Value
from ._errors import Closed
from ._events import Event

_Self = TypeVar("_Self", bound="AsyncFace")


class Face:
    """A listener without the calls that wait: each face waits in its own way."""

    def __init__(
        self,
        *,
        socket: str | os.PathLike[str] | None = None,
        database: str | None = None,
        name: str | None = None,
        policy: str | None = None,
        reopen: str = "auto",
        ignore_environment: bool = False,
        **options: Value,
    ) -> None:
        self._core = Core(
            {"socket": socket, "database": database, "name": name, "policy": policy, **options},
            reopen,
            ignore_environment,
        )
        self._begin()

    def _begin(self) -> None:
        """The face's own part of the constructor."""
        raise NotImplementedError

    @property
    def channels(self) -> frozenset[str]:
        """What is subscribed."""
        return frozenset(self._core.channels)

    @property
    def closed(self) -> bool:
        return self._core.closed


class AsyncFace(Face):
    """With what ``async for`` needs."""

    async def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None when ``timeout`` seconds have passed."""
        raise NotImplementedError

    def __aiter__(self: _Self) -> _Self:
        return self

    async def __anext__(self) -> Event:
        try:
            e = await self.next()
        except Closed:
            raise StopAsyncIteration from None
        assert e is not None
        return e

"""A channel layer for Django Channels: messages travel by NOTIFY, and come through the host's hub.

    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "pgwake.channels.PgwakeChannelLayer",
            "CONFIG": {"socket": "/run/pgwake/shop/pgwake.sock"},
        },
    }
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import importlib
import logging
import re
import time
import uuid
from collections import deque
from typing import Any, Mapping, Union

from ._core import Value
from ._errors import Error, Invalid
from ._events import Event
from ._message import from_text, to_text
from ._publisher import Publisher
from .aio import Listener

try:
    ChannelFull: type[Exception] = importlib.import_module("channels.exceptions").ChannelFull
except ImportError:

    class _ChannelFull(Exception):
        """The channel holds as many messages as its capacity."""

    ChannelFull = _ChannelFull

Message = dict[str, Any]
Capacities = Mapping[Union[str, "re.Pattern[str]"], int]

_log = logging.getLogger("pgwake.channels")
_CHANNEL = re.compile(r"[a-zA-Z\d\-_.]+(![\w\-.]*)?", re.ASCII)
_GROUP = re.compile(r"[a-zA-Z\d\-_.]+", re.ASCII)
_MOST_NAME_BYTES = 63
# What else Django hands to libpq.
_OF_LIBPQ = ("service", "passfile", "sslmode", "sslcert", "sslkey", "sslrootcert", "connect_timeout", "options")


def _valid(kind: str, name: object, form: re.Pattern[str]) -> None:
    if not isinstance(name, str) or len(name) >= 100 or not form.fullmatch(name):
        raise TypeError(
            f"{kind} name must be a unicode string of less than 100 ASCII alphanumerics, hyphens, underscores or "
            f"periods, not {name!r}"
        )


class PgwakeChannelLayer:
    """The layer of the Channels specification with its extensions ``groups`` and ``flush``.

    ``database`` is a libpq connection string, by default Django's default database; ``publish_database`` another
    way to it for sending, such as a pooler. All further keywords are options of ``pgwake.aio.Listener``.

    Channels that several processes receive from get each message in each of them, and nothing is kept for a channel
    that nobody receives from.
    """

    extensions = ["groups", "flush"]

    def __init__(
        self,
        *,
        database: str | None = None,
        publish_database: str | None = None,
        prefix: str = "asgi",
        expiry: float = 60,
        group_expiry: float = 86400,
        capacity: int = 100,
        channel_capacity: Capacities | None = None,
        **options: Value,
    ) -> None:
        self.prefix = prefix
        self.expiry = expiry
        self.group_expiry = group_expiry
        self.capacity = capacity
        self._capacities = [
            (re.compile(fnmatch.translate(form)) if isinstance(form, str) else form, most)
            for form, most in (channel_capacity or {}).items()
        ]
        database = _database_of_django() if database is None else database
        self._options: dict[str, Value] = {"name": "channels", **options, "database": database}
        self._publisher = Publisher(database if publish_database is None else publish_database)
        self._inboxes: dict[asyncio.AbstractEventLoop, _Inbox] = {}

    # The specification

    async def send(self, channel: str, message: Message) -> None:
        """Returns once the message is committed. Raises ChannelFull only for a channel of this event loop: another
        process drops what does not fit there."""
        _valid("Channel", channel, _CHANNEL)
        _check(message)
        inbox = self._inboxes.get(asyncio.get_running_loop())
        if inbox is not None and inbox.full(channel):
            raise ChannelFull(channel)
        await self._publisher.publish(self.name_of_channel(channel), to_text(channel, message))

    async def receive(self, channel: str) -> Message:
        """The next message of the channel."""
        _valid("Channel", channel, _CHANNEL)
        return await self._inbox().receive(channel)

    async def new_channel(self, prefix: str = "specific") -> str:
        """The name of a channel that this event loop alone receives from."""
        inbox = self._inbox()
        channel = f"{prefix}.{inbox.name}!{uuid.uuid4().hex}"
        _valid("Channel", channel, _CHANNEL)
        await inbox.subscribe(self.name_of_channel(channel))
        return channel

    async def group_add(self, group: str, channel: str) -> None:
        """Returns once every message that is sent to the group from now on will be received."""
        _valid("Group", group, _GROUP)
        _valid("Channel", channel, _CHANNEL)
        await self._inbox().group_add(group, channel)

    async def group_discard(self, group: str, channel: str) -> None:
        _valid("Group", group, _GROUP)
        _valid("Channel", channel, _CHANNEL)
        await self._inbox().group_discard(group, channel)

    async def group_send(self, group: str, message: Message) -> None:
        """To all members, in whichever process. A member whose channel is full does not get it."""
        _valid("Group", group, _GROUP)
        _check(message)
        await self._publisher.publish(self.name_of_group(group), to_text("", message))

    async def flush(self) -> None:
        """Forgets all messages and groups of this event loop, and closes what is open."""
        inbox = self._inboxes.pop(asyncio.get_running_loop(), None)
        if inbox is not None:
            inbox.close()
        self._publisher.close()

    # Names in PostgreSQL

    def name_of_channel(self, channel: str) -> str:
        """A process-specific channel travels under the part that its process has in common."""
        start, mark, _ = channel.partition("!")
        return self._name("c", start + mark)

    def name_of_group(self, group: str) -> str:
        return self._name("g", group)

    def _name(self, kind: str, name: str) -> str:
        full = f"{self.prefix}.{kind}.{name}"
        if len(full.encode()) <= _MOST_NAME_BYTES:
            return full
        return f"channels.{kind}.{hashlib.sha256(full.encode()).hexdigest()[:48]}"

    # For inboxes

    def capacity_of(self, channel: str) -> int:
        return next((most for form, most in self._capacities if form.match(channel)), self.capacity)

    def open(self) -> Listener:
        return Listener(**self._options)  # type: ignore[arg-type]

    def _inbox(self) -> _Inbox:
        loop = asyncio.get_running_loop()
        inbox = self._inboxes.get(loop)
        if inbox is None:
            # Nothing tells of the end of a loop.
            for gone in [one for one in self._inboxes if one.is_closed()]:
                self._inboxes.pop(gone).close()
            inbox = self._inboxes[loop] = _Inbox(self)
        return inbox


class _Box:
    """The messages of one channel."""

    def __init__(self) -> None:
        self.messages: deque[tuple[float, Message]] = deque()
        self.filled = asyncio.Event()
        self.receivers = 0

    def expire(self) -> None:
        now = time.monotonic()
        while self.messages and self.messages[0][0] < now:
            self.messages.popleft()


class _Inbox:
    """What one event loop receives."""

    def __init__(self, layer: PgwakeChannelLayer) -> None:
        self.name = uuid.uuid4().hex[:16]
        self._layer = layer
        self._listener = layer.open()
        self._boxes: dict[str, _Box] = {}
        self._groups: dict[str, dict[str, float]] = {}  # name in PostgreSQL => member => until when
        self._swept = time.monotonic()
        self._reader = asyncio.ensure_future(self._read())

    async def subscribe(self, name: str) -> None:
        if name not in self._listener._core.channels:
            await self._listener.subscribe(name)

    async def receive(self, channel: str) -> Message:
        await self.subscribe(self._layer.name_of_channel(channel))
        box = self._boxes.setdefault(channel, _Box())
        box.receivers += 1
        try:
            while True:
                box.expire()
                if box.messages:
                    return box.messages.popleft()[1]
                box.filled.clear()
                await box.filled.wait()
        finally:
            box.receivers -= 1
            if not box.messages and not box.receivers and self._boxes.get(channel) is box:
                del self._boxes[channel]

    async def group_add(self, group: str, channel: str) -> None:
        start, mark, _ = channel.partition("!")
        if mark and not start.endswith("." + self.name):
            raise Invalid(f"{channel} belongs to another process or event loop: it must be added to {group} there")
        name = self._layer.name_of_group(group)
        members = self._groups.setdefault(name, {})
        members[channel] = time.monotonic() + self._layer.group_expiry
        try:
            await self.subscribe(name)
        except BaseException:
            await self.group_discard(group, channel)
            raise

    async def group_discard(self, group: str, channel: str) -> None:
        name = self._layer.name_of_group(group)
        members = self._groups.get(name)
        if members is None:
            return
        members.pop(channel, None)
        await self._leave_if_empty(name)

    async def _leave_if_empty(self, name: str) -> None:
        if not self._groups[name]:
            del self._groups[name]
            await self._listener.unsubscribe(name)

    def full(self, channel: str) -> bool:
        box = self._boxes.get(channel)
        if box is None:
            return False
        box.expire()
        return len(box.messages) >= self._layer.capacity_of(channel)

    def close(self) -> None:
        self._listener.close()
        if not self._reader.get_loop().is_closed():
            self._reader.cancel()

    # Events

    async def _read(self) -> None:
        async for e in self._listener:
            if e.kind == "wake":
                try:
                    await self._take(e)
                except Exception:
                    _log.exception("a message on %s could not be delivered", e.channel)
            elif e.kind == "refused":
                _log.error("%s is refused: %s", e.channel, e.reason)

    async def _take(self, e: Event) -> None:
        if e.data is None:
            if e.gap:
                _log.warning("messages may have been missed on %s (%s)", e.channel, e.gap)
            return
        try:
            channel, message = from_text(e.data.decode())
        except ValueError as error:
            _log.error("a notification on %s that is not a message: %s", e.channel, error)
            return
        if channel:
            if self._layer.name_of_channel(channel) == e.channel:
                self._put(channel, message)
            return
        members = self._groups.get(e.channel, {})
        now = time.monotonic()
        for member, until in list(members.items()):
            if until < now:
                del members[member]
            else:
                # Each its own: a consumer may change what it gets.
                self._put(member, from_text(e.data.decode())[1])
        if e.channel in self._groups:
            await self._leave_if_empty(e.channel)

    def _put(self, channel: str, message: Message) -> None:
        self._sweep()
        box = self._boxes.setdefault(channel, _Box())
        if self.full(channel):
            _log.warning("%s is full: a message is dropped", channel)
            return
        box.messages.append((time.monotonic() + self._layer.expiry, message))
        box.filled.set()

    def _sweep(self) -> None:
        """Channels of consumers that have gone are known by what nobody took in time."""
        if time.monotonic() - self._swept < self._layer.expiry:
            return
        self._swept = time.monotonic()
        for channel, box in list(self._boxes.items()):
            box.expire()
            if not box.messages and not box.receivers:
                del self._boxes[channel]


def _check(message: object) -> None:
    if not isinstance(message, dict):
        raise TypeError(f"a message is a dict, not {type(message).__name__}")


def _database_of_django() -> str:
    """Django's default database as a connection string."""
    try:
        settings = importlib.import_module("django.conf").settings.DATABASES["default"]
    except Exception as error:
        raise Error(f"CONFIG names no database, and Django's is not to be had: {error}") from None
    if not any(kind in settings["ENGINE"] for kind in ("postgresql", "postgis")):
        raise Error(f"CONFIG names no database, and Django's default is not PostgreSQL but {settings['ENGINE']}")
    parts = {
        "host": settings.get("HOST"),
        "port": settings.get("PORT"),
        "user": settings.get("USER"),
        "password": settings.get("PASSWORD"),
        "dbname": settings.get("NAME"),
        **{key: value for key, value in (settings.get("OPTIONS") or {}).items() if key in _OF_LIBPQ},
    }
    written = {key: str(value).replace("\\", "\\\\").replace("'", "\\'") for key, value in parts.items() if value}
    return " ".join(f"{key}='{value}'" for key, value in written.items())

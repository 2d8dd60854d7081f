"""Channels as Server-Sent Events, for any ASGI server with asyncio.

    import pgwake.asgi

    events = pgwake.asgi.sse("orders")      # an ASGI application: mount it at a path

See client/python/README.md.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
import threading
import weakref
from types import FrameType
from typing import Any, Awaitable, Callable, Dict, Iterable, List, MutableMapping, Union

from ._core import Value
from ._errors import Closed, Invalid, Refused, TimeoutError
from ._fanout import Fanout, Full, Settings, Stream
from ._rows import RowSource

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Chosen = Union[str, Iterable[str], None]
Choose = Callable[[Scope], Union[Chosen, Awaitable[Chosen]]]

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx
]
_STATUS = {"limit": 503, "invalid_channel": 400}

_fanouts: Dict[Any, Fanout] = {}


class _Refusal(Exception):
    def __init__(self, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(why)
        self.status = status
        self.headers = list(headers)


class _Dropped(Exception):
    """Ends the connection of a browser that does not read: there is no other way from within ASGI."""


def sse(
    *channels: str,
    choose: Choose | None = None,
    heartbeat: float = 15,
    write_timeout: float = 30,
    max_unsent: int = 1 << 20,
    linger: float = 30,
    reconnect: float = 2,
    subscribe_timeout: float = 10,
    max_browsers: int = 10_000,
    rows: RowSource | None = None,
    **options: Value,
) -> SSE:
    """An ASGI application that streams channels to browsers.

    ``choose(scope)``, which may be a coroutine function, names the channels of a request instead; None or none: 403.
    ``heartbeat``: seconds of silence until a comment is sent. ``write_timeout``: seconds in which the server must take
    what is sent to a browser. ``max_unsent``: bytes that may wait for it. ``linger``: seconds a channel stays
    subscribed after its last browser. ``reconnect``: about so many seconds a browser waits before it comes again.
    ``subscribe_timeout``: seconds until 503. ``max_browsers``: of one event loop. ``rows``: reads the rows
    that wakes announce, see client/python/README.md. All others are options of ``pgwake.aio.Listener``.
    """
    if bool(channels) == (choose is not None):
        raise Invalid("sse: name channels, or give choose")
    settings = Settings(heartbeat, write_timeout, max_unsent, linger, reconnect, max_browsers, rows)
    return SSE(channels, choose, settings, subscribe_timeout, {"name": "sse", **options})


class SSE:
    """What sse() answers."""

    def __init__(
        self,
        channels: tuple[str, ...],
        choose: Choose | None,
        settings: Settings,
        timeout: float,
        options: dict[str, Value],
    ) -> None:
        self._channels = channels
        self._choose = choose
        self._settings = settings
        self._timeout = timeout
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                fanout, stream = await self._enter(scope)
            except _Refusal as refusal:
                await _refuse(send, refusal)
                return
            try:
                await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
                await self._stream(fanout, stream, receive, send)
            finally:
                fanout.leave(stream)
        else:
            raise RuntimeError(f"pgwake.asgi.sse serves http, not {scope['type']}")

    async def _enter(self, scope: Scope) -> tuple[Fanout, Stream]:
        if scope["method"] != "GET":
            raise _Refusal(405, "GET is the only method here", (b"allow", b"GET"))
        chosen: Any = self._channels if self._choose is None else self._choose(scope)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        channels = dict.fromkeys([chosen] if isinstance(chosen, str) else chosen or ())
        if not channels:
            raise _Refusal(403, "no channel is yours")
        fanout = _fanout(self._settings, self._options)
        try:
            return fanout, await fanout.enter(channels, self._timeout, self._positions(scope, len(channels)))
        except Refused as error:
            raise _Refusal(_STATUS.get(error.code, 403), str(error)) from None
        except Invalid as error:
            raise _Refusal(400, str(error)) from None
        except (TimeoutError, Closed, Full) as error:
            after = str(max(1, round(self._settings.reconnect))).encode()
            raise _Refusal(503, str(error), (b"retry-after", after)) from None

    def _positions(self, scope: Scope, count: int) -> list[int] | None:
        """Of the last event that the browser has; None: it has none, or what it says is none of ours. A page that was
        loaded anew cannot set the header."""
        if self._settings.rows is None:
            return None
        said = dict(scope["headers"]).get(b"last-event-id")
        if said is None:
            found = re.search(rb"(?:^|&)last_event_id=([^&]*)", scope["query_string"])
            said = b"" if found is None else re.sub(b"(?i)%2c", b",", found[1])
        if not re.fullmatch(rb"[0-9]{1,19}(,[0-9]{1,19})*", said):
            return None
        numbers = [int(number) for number in said.split(b",")]
        return numbers if len(numbers) == count and max(numbers) < 1 << 63 else None

    async def _stream(self, fanout: Fanout, stream: Stream, receive: Receive, send: Send) -> None:
        jobs = [asyncio.ensure_future(j) for j in (self._send(fanout, stream, send), _gone(receive), stream.given_up())]
        try:
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for job in jobs:
                job.cancel()
            ended = await asyncio.gather(*jobs, return_exceptions=True)
        if stream.dropped:
            raise _Dropped(f"a browser did not read ({', '.join(stream.channels[:3])})")
        if isinstance(ended[0], Exception) and not isinstance(ended[0], OSError):
            raise ended[0]

    async def _send(self, fanout: Fanout, stream: Stream, send: Send) -> None:
        while True:
            body = await stream.take(self._settings.heartbeat)
            if not body and stream.ended:
                break
            try:
                await asyncio.wait_for(
                    send({"type": "http.response.body", "body": body, "more_body": True}), self._settings.write_timeout
                )
            except asyncio.TimeoutError:
                fanout.drop(stream, f"a browser took nothing for {self._settings.write_timeout} s and is dropped (%s)")
                return
            stream.sent(len(body))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: Send, refusal: _Refusal) -> None:
    body = f"{refusal}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers + refusal.headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    """Where it is the whole application."""
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _fanout(settings: Settings, options: dict[str, Value]) -> Fanout:
    """The one of this event loop for these settings. Nothing is open before the first browser comes."""
    loop = asyncio.get_running_loop()
    for key, other in list(_fanouts.items()):
        if other.pid != os.getpid():
            del _fanouts[key]  # the parent's
        elif key[0].is_closed():
            _fanouts.pop(key).close()
    key = (loop, settings, tuple(sorted(options.items())))
    found = _fanouts.get(key)
    # One that failed is replaced; when the server stops, no other one comes.
    if found is None or (found.ended and loop not in _stopping):
        _watch_for_the_end()
        found = _fanouts[key] = Fanout(settings, options)
        if loop in _stopping:
            found.close()
    return found


# The end of the server: it waits for its responses before it says anything to the application, so the streams must end
# at the signal itself.

_stopping: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
_before: Dict[int, List[Callable[[int, FrameType | None], Any]]] = {}
_entered: Dict[int, int] = {}


def _watch_for_the_end() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        handler = signal.getsignal(number)
        # By default the signal ends the process, and its connections with it.
        if callable(handler) and handler is not _stop:
            _before.setdefault(number, []).append(handler)
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> Any:
    for key, fanout in list(_fanouts.items()):
        if fanout.pid == os.getpid() and not key[0].is_closed():
            _stopping.add(key[0])
            key[0].call_soon_threadsafe(fanout.close)
    # A handler that was put over this one, and calls it, comes here again: then it is the turn of the one before that.
    entered = _entered.get(number, 0)
    before = _before[number]
    if entered >= len(before):
        return None
    _entered[number] = entered + 1
    try:
        return before[-1 - entered](number, frame)
    finally:
        _entered[number] = entered

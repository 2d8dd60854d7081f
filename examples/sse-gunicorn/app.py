"""Streams to browsers: an ASGI application, see README.md here."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qs

import psycopg
import pgwake.asgi
from messages import Messages, channel_of

_PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sse", "page.html")
with open(_PAGE, "rb") as f:
    page = f.read()
messages = Messages(os.environ["DATABASE"])


def stream_of(scope) -> str | None:
    """The stream that a request names. A real application asks here who may read it: None answers 403."""
    name = parse_qs(scope["query_string"].decode("ascii", "replace")).get("stream", [""])[0]
    return name if re.fullmatch("[a-z0-9_]{1,49}", name) else None


def choose(scope) -> str | None:
    stream = stream_of(scope)
    return stream and channel_of(stream)


# The listener's own settings come from the environment: PGWAKE_SOCKET, PGWAKE_DATABASE, ...
events = pgwake.asgi.sse(
    choose=choose,
    rows=messages,
    name="sse-gunicorn",
    heartbeat=float(os.environ.get("HEARTBEAT", 15)),
    write_timeout=float(os.environ.get("WRITE_TIMEOUT", 30)),
)


async def body_of(receive) -> str:
    body, more = b"", True
    while more and len(body) < 7000:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body[:7000].decode("utf-8", "replace").replace("\0", "")


async def answer(send, status: int, text: str | bytes = b"", kind: bytes = b"text/plain") -> None:
    body = text if isinstance(text, bytes) else text.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers if status != 204 else []})
    await send({"type": "http.response.body", "body": body})


async def publish(scope, receive, send, action) -> None:
    stream = stream_of(scope)
    if scope["method"] != "POST" or stream is None:
        await answer(send, 400, "which stream?\n")
        return
    try:
        await action(stream, await body_of(receive))
        await answer(send, 204)
    except psycopg.Error as error:
        await answer(send, 503, f"{error}\n")


async def app(scope, receive, send) -> None:
    if scope["type"] == "lifespan":
        await events(scope, receive, send)
        return

    async def send_with_worker(message) -> None:
        """Who serves: for those who look at a cluster."""
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"x-worker", str(os.getpid()).encode())]
        await send(message)

    path = scope["path"]
    if path == "/events":
        await events(scope, receive, send_with_worker)
    elif path == "/durable":
        await publish(scope, receive, send_with_worker, messages.add)
    elif path == "/ephemeral":
        await publish(scope, receive, send_with_worker, messages.notify)
    elif path == "/":
        await answer(send_with_worker, 200, page, b"text/html")
    else:
        await answer(send_with_worker, 404)

"""What test_asgi.py runs in each server: the same streams with settings for each test."""

from __future__ import annotations

import json
import os
from urllib.parse import parse_qs

import pgwake.asgi

_HOST = json.loads(os.environ["SSE_OPTIONS"])
_KINDS: dict[str, dict] = {
    "plain": {},
    "beating": {"heartbeat": 0.2},
    "narrow": {"max_unsent": 64 * 1024},
    "impatient": {"write_timeout": 1, "max_unsent": 64 << 20},
    "brief": {"linger": 0, "heartbeat": 0.5},  # Hypercorn notices the end of a browser when it writes
    "lonely": {"max_browsers": 1},
    "nowhere": {"socket": "/nonexistent/pgwake.sock", "database": "host=/nonexistent", "subscribe_timeout": 0.3},
}


async def _choose(scope) -> list[str]:
    return parse_qs(scope["query_string"].decode(), errors="strict").get("channel", [])


def _make(kind: str, settings: dict):
    options = {**_HOST, "application_name": "own " + kind, "name": "sse " + kind, **settings}
    return pgwake.asgi.sse(choose=_choose, **options)


_STREAMS = {"/" + kind: _make(kind, settings) for kind, settings in _KINDS.items()}


async def app(scope, receive, send) -> None:
    if scope["type"] == "http" and scope["path"] == "/pid":
        body = str(os.getpid()).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    else:
        await _STREAMS.get(scope.get("path"), _STREAMS["/plain"])(scope, receive, send)

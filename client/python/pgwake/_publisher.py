"""NOTIFY for the adapters that send, over one connection of the process."""

from __future__ import annotations

import asyncio
import importlib
import os
import select
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._errors import Error, Invalid

MOST_BYTES = 7999


def _driver() -> Any:
    for name in ("psycopg", "psycopg2"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise Error("publishing needs psycopg or psycopg2 (apt install python3-psycopg)")


def _ended(connection: Any) -> bool:
    """Whether the server has said something, which to an idle session is only ever its end."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


class Publisher:
    """Opened at the first message and kept, in a thread of its own: any event loop of the process may use it, those
    too that live for one call alone. Messages are sent one after another, each committed by itself."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._connection: Any = None
        self._thread: ThreadPoolExecutor | None = None

    async def publish(self, channel: str, payload: str) -> None:
        """Returns once it is committed. Not tried twice: a message goes out at most once."""
        if len(payload.encode()) > MOST_BYTES:
            raise Invalid(
                f"a message of {len(payload.encode())} bytes: PostgreSQL's NOTIFY takes {MOST_BYTES} at most. "
                "Put it into a table and send its key"
            )
        await asyncio.get_running_loop().run_in_executor(self._executor(), self._send, channel, payload)

    def close(self) -> None:
        if self._pid == os.getpid() and self._thread is not None:
            self._thread.submit(self._drop)
            self._thread.shutdown()
            self._thread = None

    def _executor(self) -> ThreadPoolExecutor:
        if self._pid != os.getpid():
            # The connection is the parent's: its driver sees that and closes nothing.
            self._lock = threading.Lock()
            self._begin()
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "pgwake publisher")
            return self._thread

    def _send(self, channel: str, payload: str) -> None:
        if self._connection is not None and _ended(self._connection):
            self._drop()
        if self._connection is None:
            connection = _driver().connect(self._database)
            connection.autocommit = True
            if hasattr(connection, "prepare_threshold"):
                connection.prepare_threshold = None  # prepared statements do not go through a transaction pooler
            self._connection = connection
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, %s)", (channel, payload))
        except Exception:
            if self._connection.closed:
                self._drop()
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

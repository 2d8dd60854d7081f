"""The table of ../sse/schema.sql."""

from __future__ import annotations

import asyncio

import psycopg


def channel_of(stream: str) -> str:
    return f"pgmq.q_{stream}.INSERT"


def stream_of(channel: str) -> str:
    return channel[len("pgmq.q_") : -len(".INSERT")]


class Messages:
    """What `newest` and `after` are for is in client/python/README.md."""

    def __init__(self, conninfo: str) -> None:
        # Readers never wait for those who write.
        self._reading = Session(conninfo, "sse-gunicorn reading")
        self._writing = Session(conninfo, "sse-gunicorn writing")

    async def newest(self, channel: str) -> int:
        newest = "SELECT coalesce(max(newest), 0) FROM streams WHERE name = %s"
        return (await self._reading.again(newest, stream_of(channel)))[0][0]

    async def after(self, channel: str, number: int, limit: int) -> list[tuple[int, str]]:
        rows = "SELECT id, payload FROM messages WHERE stream = %s AND id > %s ORDER BY id LIMIT %s"
        return await self._reading.again(rows, stream_of(channel), number, limit)

    async def add(self, stream: str, text: str) -> None:
        """A row: whoever is away gets it later."""
        await self._writing.once("INSERT INTO messages (stream, payload) VALUES (%s, %s)", stream, text)

    async def notify(self, stream: str, text: str) -> None:
        """For those who are there now."""
        await self._writing.once("SELECT pg_notify(%s, %s)", channel_of(stream), text)


class Session:
    """One connection of a process, opened when it is first needed: never before gunicorn forks. It may go through a
    pooler."""

    def __init__(self, conninfo: str, name: str) -> None:
        self._conninfo = conninfo
        self._name = name
        self._lock: asyncio.Lock | None = None
        self._connection: psycopg.AsyncConnection | None = None

    async def once(self, statement: str, *parameters: object) -> list[tuple]:
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            return await self._ask(statement, parameters)

    async def again(self, statement: str, *parameters: object) -> list[tuple]:
        """What may be said twice: the connection may have been lost since the last time."""
        known = self._connection is not None
        try:
            return await self.once(statement, *parameters)
        except psycopg.OperationalError:
            if not known:
                raise
            return await self.once(statement, *parameters)

    async def _ask(self, statement: str, parameters: tuple) -> list[tuple]:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=None,  # a pooler may give each statement another session
                application_name=self._name,
                connect_timeout=5,
            )
        try:
            cursor = await self._connection.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []
        except BaseException:
            # Also where it was given up half-way.
            if self._connection.closed or self._connection.broken or self._connection.info.transaction_status != 0:
                connection, self._connection = self._connection, None
                await connection.close()
            raise

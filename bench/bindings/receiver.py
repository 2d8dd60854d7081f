#!/usr/bin/python3
"""The Python receivers of bench/bindings/measure: receiver.py KIND SOCKET CONNINFO CHANNEL, or once WHAT."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", "python"))

NOBODY = {"socket": "/nonexistent/s", "policy": "poll", "poll_interval": "10ms"}


def say(what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e6


def resident() -> dict:
    with open("/proc/self/statm") as f:
        return {"pages": int(f.read().split()[1]), "descriptors": len(os.listdir("/proc/self/fd"))}


class Counting:
    """What a handler sees, until there are enough."""

    def begin(self, count: int, timed: bool) -> None:
        self.left = count
        self._timed = timed
        self._seen: list[int] = []
        self._from = 0
        self._processor = processor()

    def one(self, payload: str) -> None:
        if self._timed:
            self._seen.append(time.monotonic_ns() - int(payload))
        elif not self._from:
            self._from = time.monotonic_ns()
        self.left -= 1

    def result(self) -> dict:
        if self._timed:
            return {"us": sorted(self._seen)[len(self._seen) // 2] / 1e3}
        return {"seconds": (time.monotonic_ns() - self._from) / 1e9, "us": processor() - self._processor}


class Pgwake:
    def __init__(self, socket: str, conninfo: str, channel: str) -> None:
        import pgwake

        self._open = lambda: pgwake.Listener(socket=socket, database=conninfo)
        self._channel = channel
        self.listener = self._open()
        self.listener.subscribe(channel, timeout=60)

    def take(self, counting: Counting) -> None:
        while counting.left > 0:
            events = [self.listener.next()] if not (waiting := self.listener.drain(1000)) else waiting
            for e in events:
                if e.kind == "wake":
                    counting.one(e.payload)

    def idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.listener.next(timeout=left)

    def opens(self, count: int) -> None:
        for _ in range(count):
            with self._open() as listener:
                listener.subscribe(self._channel, timeout=60)


class Psycopg2:
    def __init__(self, socket: str, conninfo: str, channel: str) -> None:
        import psycopg2

        self._connection = psycopg2.connect(conninfo)
        self._connection.autocommit = True
        self._connection.cursor().execute(f"LISTEN {channel}")

    def take(self, counting: Counting) -> None:
        while counting.left > 0:
            select.select([self._connection], [], [])
            self._connection.poll()
            notifies, self._connection.notifies = self._connection.notifies, []
            for n in notifies:
                counting.one(n.payload)


class Psycopg3:
    def __init__(self, socket: str, conninfo: str, channel: str) -> None:
        import psycopg

        self._connection = psycopg.connect(conninfo, autocommit=True)
        self._connection.execute(f"LISTEN {channel}")
        self._notifies = self._connection.notifies()

    def take(self, counting: Counting) -> None:
        while counting.left > 0:
            counting.one(next(self._notifies).payload)


class Looping:
    """Those with an event loop, which runs while something is measured, and a callback for each notification."""

    def __init__(self, socket: str, conninfo: str, channel: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._counting = Counting()
        self._counting.begin(0, False)
        self._loop.run_until_complete(self._listen(socket, conninfo, channel))

    def _called(self, connection: object, pid: int, channel: str, payload: str) -> None:
        self._counting.one(payload)
        if self._counting.left == 0:
            self._loop.stop()

    def take(self, counting: Counting) -> None:
        self._counting = counting
        self._loop.run_forever()


class Aio(Looping):
    async def _listen(self, socket: str, conninfo: str, channel: str) -> None:
        import pgwake.aio

        self._listener = pgwake.aio.Listener(socket=socket, database=conninfo)
        await self._listener.add_listener(channel, self._called, timeout=60)


class Asyncpg(Looping):
    async def _listen(self, socket: str, conninfo: str, channel: str) -> None:
        import asyncpg

        given = dict(word.split("=", 1) for word in conninfo.split())
        self._connection = await asyncpg.connect(host=given["host"], user=given["user"], database=given["dbname"])
        await self._connection.add_listener(channel, self._called)


KINDS = {"pgwake": Pgwake, "psycopg2": Psycopg2, "psycopg3": Psycopg3, "aio": Aio, "asyncpg": Asyncpg}


def serve(kind: str, *where: str) -> None:
    receiver = KINDS[kind](*where)
    counting = Counting()
    say("listens")
    for line in iter(sys.stdin.readline, ""):
        what, number = line.split()
        counting.begin(int(number), what == "latency")
        say("ready")
        if what in ("latency", "burst"):
            receiver.take(counting)
            say(counting.result())
        elif what == "resident":
            say(resident())
        else:  # idle, opens
            used = processor()
            getattr(receiver, what)(int(number))
            say({"us": processor() - used})


def once(what: str) -> None:
    begun = time.perf_counter()
    import pgwake

    if what == "import":
        say({"ms": (time.perf_counter() - begun) * 1e3})
    elif what == "exit":
        listener = pgwake.Listener(**NOBODY)
        listener.subscribe("c")
        listener.next()
    else:
        listener = pgwake.Listener(socket="/nonexistent/s", database="host=/nonexistent")
        try:
            say("waits")
            if what == "subscribe":
                listener.subscribe("c", timeout=None)
            while True:
                listener.next()
        except KeyboardInterrupt:
            say({"ns": time.monotonic_ns()})


if sys.argv[1] == "once":
    once(sys.argv[2])
else:
    serve(*sys.argv[1:])

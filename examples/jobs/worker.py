#!/usr/bin/python3
"""A job host: processes that work off queues, woken through the host's hub (README.md)."""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import sys
import time
import traceback

import psycopg
import pgwake

_OVER_LIMIT = "a job is worked on by another process by now: its claim ran out"


def resolve(wanted: list[str], known: list[str]) -> list[str]:
    """The queues that a list with wildcards stands for, in its order; those of one wildcard by name."""
    out: dict[str, None] = {}
    for one in wanted:
        wild = any(c in one for c in "*?[")
        out.update(dict.fromkeys(sorted(fnmatch.filter(known, one)) if wild else [one]))
    return list(out)


class Worker:
    """One process. Its only connection is the one it works with."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._wanted = arguments.queues.split(",")
        self._queues: list[str] = []
        self._refreshed = 0.0
        self._connection: psycopg.Connection | None = None
        self._waker: pgwake.Waker | None = None
        self._stopping = False
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)

    def run(self) -> None:
        while not self._stopping:
            try:
                self._refresh()
                while not self._stopping and self._work():
                    if time.monotonic() - self._refreshed > self._arguments.refresh:
                        self._refresh()
                if not self._stopping:
                    self._wait()
            except pgwake.Refused as error:
                self._say(f"refused by the hub, so it polls: {error}")
                time.sleep(self._arguments.poll / 1000)
            except psycopg.OperationalError as error:
                self._say(f"no database: {str(error).splitlines()[0]}")
                self._connection = None
                time.sleep(1)
            except pgwake.Closed:
                pass  # it was told to stop while it waited

    def _stop(self, *_: object) -> None:
        self._stopping = True
        if self._waker is not None:
            self._waker.close()

    def _say(self, text: str) -> None:
        print(f"{os.getpid()}: {text}", flush=True)

    def _sql(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._arguments.database, autocommit=True, application_name=f"jobs worker {os.getpid()}"
            )
        return self._connection

    def _refresh(self) -> None:
        """The queues there are now, and a waker for them."""
        known = [name for (name,) in self._sql().execute("SELECT name FROM queues")]
        queues = resolve(self._wanted, known)
        self._refreshed = time.monotonic()
        if self._waker is not None and queues == self._queues:
            return
        self._queues = queues
        self._say(f"queues: {', '.join(queues) or 'none'}")
        before = self._waker
        # Never a connection of its own for listening: while the hub cannot serve it polls.
        self._waker = pgwake.Waker(
            "jobs_queues",
            *("jobs." + queue for queue in queues),
            name="jobs worker",
            socket=self._arguments.socket,
            policy="poll",
            poll_interval=f"{self._arguments.poll}ms",
            ignore_environment=True,
        )
        if before is not None:
            before.close()
        if self._stopping:  # told so meanwhile: the signal has closed the one before
            self._waker.close()

    def _wait(self) -> None:
        """Until there may be work, the next job becomes visible, or for the safety poll."""
        assert self._waker is not None
        until = min(self._arguments.safety, self._arguments.refresh)
        row = self._sql().execute(
            "SELECT extract(epoch FROM min(visible_at) - now())::float8 FROM jobs WHERE queue = ANY(%s)", [self._queues]
        ).fetchone()
        if row is not None and row[0] is not None:
            until = min(until, max(0.0, row[0]))
        self._waker.wait(until)

    def _work(self) -> bool:
        """One batch; false: nothing is to be done."""
        claimed = (
            self._sql()
            .execute(
                "SELECT id, queue, payload, attempts FROM claim_jobs(%s, %s, %s * interval '1 second') "
                "WITH ORDINALITY ORDER BY ordinality",
                [self._queues, self._arguments.batch, self._arguments.hold],
            )
            .fetchall()
        )
        for number, queue, payload, attempt in claimed:
            if self._stopping:
                self._give_back(number, attempt)
                continue
            with self._sql().transaction():
                # First, so that nothing is done for a claim that ran out.
                mine = self._sql().execute(
                    "DELETE FROM jobs WHERE id = %s AND attempts = %s RETURNING true", [number, attempt]
                )
                if mine.fetchone() is None:
                    self._say(_OVER_LIMIT)
                    continue
                self._perform(number, queue, payload, attempt)
        return bool(claimed)

    def _give_back(self, number: int, attempt: int) -> None:
        self._sql().execute(
            "WITH back AS (UPDATE jobs SET visible_at = now() WHERE id = %s AND attempts = %s RETURNING queue) "
            "SELECT pg_notify('jobs.' || queue, '') FROM back",
            [number, attempt],
        )

    def _perform(self, number: int, queue: str, payload: str, attempt: int) -> None:
        """The example's work; what it writes is committed with the job's end, or not at all."""
        if payload.startswith("sleep "):
            time.sleep(float(payload[6:]))
        self._sql().execute(
            "INSERT INTO done VALUES (%s, %s, %s, %s, %s)", [number, queue, payload, os.getpid(), attempt]
        )
        self._say(f"{queue}: {payload}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", required=True, help="the hub's socket")
    parser.add_argument("--database", required=True, help="libpq connection string of the work; a pooler will do")
    parser.add_argument("--queues", required=True, help="by priority, such as critical,mail.*,default")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=10, help="jobs that one process claims at a time")
    parser.add_argument("--hold", type=float, default=60, help="seconds until another may take a claimed job")
    parser.add_argument("--poll", type=int, default=1000, help="milliseconds between looks while the hub cannot serve")
    parser.add_argument("--safety", type=float, default=30, help="seconds between looks while nothing happens")
    parser.add_argument("--refresh", type=float, default=30, help="seconds between looks at the table of queues")
    arguments = parser.parse_args()
    sys.exit(supervise(arguments))


def work(arguments: argparse.Namespace) -> int:
    try:
        worker = Worker(arguments)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        worker.run()
        return 0
    except Exception:
        traceback.print_exc()
        return 1


def supervise(arguments: argparse.Namespace) -> int:
    """Keeps so many processes at work until it is told to stop."""
    children: set[int] = set()
    stopping = False

    def stop(number: int, _: object) -> None:
        nonlocal stopping
        stopping = True
        for child in children:
            os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    while not stopping or children:
        while not stopping and len(children) < arguments.processes:
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
            if not stopping:  # a signal may have come before it was blocked
                child = os.fork()
                if child == 0:
                    os._exit(work(arguments))
                children.add(child)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        if children:
            ended, status = os.wait()
            children.discard(ended)
            if not stopping:
                print(f"{ended}: ended with {os.waitstatus_to_exitcode(status)}; another one starts", flush=True)
                time.sleep(0.2)
    return 0


if __name__ == "__main__":
    main()

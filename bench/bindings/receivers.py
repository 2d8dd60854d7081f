"""The receivers as processes: a line asks, and lines of JSON answer."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = {
    "python": ["/usr/bin/python3", HERE + "/receiver.py"],
    "ruby": ["ruby", HERE + "/receiver.rb"],
    "node": ["node", HERE + "/receiver.mjs"],
}

# Those that go through pgwake, and the languages' own drivers.
KINDS = {
    "pgwake c": [os.environ["RECEIVER_C"]],
    "pgwake ruby": [*PROGRAMS["ruby"], "pgwake"],
    "pgwake python": [*PROGRAMS["python"], "pgwake"],
    "pgwake aio": [*PROGRAMS["python"], "aio"],
    "pgwake node": [*PROGRAMS["node"], "pgwake"],
    "ruby-pg": [*PROGRAMS["ruby"], "pg"],
    "psycopg2": [*PROGRAMS["python"], "psycopg2"],
    "psycopg3": [*PROGRAMS["python"], "psycopg3"],
    "asyncpg": [*PROGRAMS["python"], "asyncpg"],
    "node-postgres": [*PROGRAMS["node"], "pg"],
}


class Process:
    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._words)} has ended: exit code {self._process.wait()}")
        return json.loads(line)

    def write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Receiver(Process):
    """One that listens to its channel."""

    def __init__(self, words: list[str], socket: str, conninfo: str, channel: str) -> None:
        super().__init__([*words, socket, conninfo, channel])
        self.channel = channel
        self.answer()

    def begin(self, what: str, number: int) -> None:
        self.write(f"{what} {number}")
        self.answer()

    def ask(self, what: str, number: int) -> Any:
        self.begin(what, number)
        return self.answer()


def command(language: str, what: str) -> list[str]:
    return [*PROGRAMS[language], "once", what]


def started(language: str, what: str) -> Process:
    return Process(command(language, what))

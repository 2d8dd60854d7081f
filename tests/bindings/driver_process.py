"""A driver: a process that speaks the lines of README.md."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import threading
from typing import Any
from urllib.parse import unquote_to_bytes

PATIENCE = int(os.environ.get("PATIENCE", 60))  # seconds, for anything that ends by itself on a machine with much to do


class Failure(Exception):
    """A case does not hold, or a driver does not play."""


def encoded(text: bytes) -> str:
    return re.sub(rb'[^ -~]|["\\%]', lambda m: b"%%%02X" % m[0][0], text).decode()


def decoded(answer: Any) -> Any:
    """The answer, with its texts as bytes where they may be any."""
    if isinstance(answer, list):
        return [decoded(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        key: unquote_to_bytes(value) if key in ("channel", "payload") and value is not None
        else unquote_to_bytes(value).decode("utf-8", "replace") if key in ("reason", "text")
        else decoded(value)
        for key, value in answer.items()
    }


class Driver:
    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, *words: str | bytes) -> None:
        line = json.dumps([encoded(w if isinstance(w, bytes) else w.encode()) for w in words])
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"the driver has ended: {self._end()}") from None

    def receive(self, patience: float = PATIENCE + 30) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            raise Failure("the driver does not answer") from None
        if not line:
            raise Failure(f"the driver has ended: {self._end()}")
        answer: dict[str, Any] = decoded(json.loads(line))
        return answer

    def ask(self, *words: str | bytes) -> dict[str, Any]:
        self.send(*words)
        return self.receive()

    def signal(self, name: str) -> None:
        self._process.send_signal(getattr(signal, name))

    def _end(self) -> str:
        try:
            return f"exit code {self._process.wait(PATIENCE)}"
        except subprocess.TimeoutExpired:
            return "it has closed its output"

    def end(self) -> int:
        """The input ends, and so does the driver, whatever it has open: its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("the driver does not end with its input") from None

    def kill(self) -> None:
        """With its children."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass

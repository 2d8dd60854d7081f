#!/usr/bin/python3
"""The driver of the Python faces: the lines of tests/bindings/README.md, obeyed with pgwake.Listener, or with
pgwake.aio.Listener where --asyncio is given."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import signal
import sys
import threading
from typing import Any
from urllib.parse import unquote_to_bytes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "client", "python"))

import pgwake  # noqa: E402
import pgwake.aio  # noqa: E402

ERRORS = {
    pgwake.Refused: "refused",
    pgwake.TimeoutError: "timeout",
    pgwake.Closed: "closed",
    pgwake.Invalid: "invalid",
    pgwake.Forked: "forked",
}


def decoded(word: str) -> str:
    return unquote_to_bytes(word).decode("utf-8", "surrogateescape")


def encoded(text: str | bytes) -> str:
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return re.sub(rb'[^ -~]|["\\%]', lambda m: b"%%%02X" % m[0][0], raw).decode()


def is_utf8(*parts: bytes) -> bool:
    try:
        for part in parts:
            part.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown(e: pgwake.Event) -> dict[str, Any]:
    channel = e.channel.encode("utf-8", "surrogateescape")
    return {
        "kind": e.kind,
        "source": e.source,
        "gap": e.gap,
        "by": e.pid,
        "channel": encoded(channel),
        "payload": None if e.data is None else encoded(e.data),
        "reason": encoded(e.reason),
        "healthy": e.healthy,
        "utf8": is_utf8(channel, e.data or b""),
    }


def seconds(milliseconds: str) -> float | None:
    return None if int(milliseconds) < 0 else int(milliseconds) / 1000


def options_of(words: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = dict(word.split("=", 1) for word in words)
    if "ignore_environment" in options:
        options["ignore_environment"] = options["ignore_environment"] == "on"
    return options


def failure(error: BaseException) -> dict[str, str]:
    said = {"error": ERRORS.get(type(error), type(error).__name__), "text": encoded(str(error))}
    if isinstance(error, pgwake.Refused):
        said.update(code=error.code, channel=encoded(error.channel))
    return said


class Blocking:
    """The requests with pgwake.Listener."""

    def __init__(self) -> None:
        self._threads: dict[pgwake.Listener, tuple[threading.Thread, list[BaseException]]] = {}

    def open(self, words: list[str]) -> pgwake.Listener:
        return pgwake.Listener(**options_of(words))

    def subscribe(self, listener: pgwake.Listener, timeout: str, *channels: str) -> bool:
        listener.subscribe(*channels, timeout=seconds(timeout))
        return True

    def unsubscribe(self, listener: pgwake.Listener, *channels: str) -> bool:
        listener.unsubscribe(*channels)
        return True

    def next(self, listener: pgwake.Listener, timeout: str) -> Any:
        e = listener.next(seconds(timeout))
        return None if e is None else shown(e)

    def read(self, listener: pgwake.Listener, most: str) -> Any:
        return [shown(e) for e in listener.drain(int(most))]

    def readable(self, listener: pgwake.Listener, timeout: str) -> bool:
        return bool(select.select([listener], [], [], seconds(timeout))[0])

    def state(self, listener: pgwake.Listener) -> Any:
        return listener.state._asdict()

    def reopen(self, listener: pgwake.Listener) -> bool:
        listener.reopen()
        return True

    def shutdown(self, listener: pgwake.Listener) -> bool:
        listener.close()
        return True

    def thread(self, listener: pgwake.Listener) -> bool:
        raised: list[BaseException] = []

        def wait() -> None:
            try:
                while True:
                    listener.next()
            except pgwake.Error as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        self._threads[listener] = thread, raised
        thread.start()
        return True

    def join(self, listener: pgwake.Listener) -> Any:
        thread, raised = self._threads.pop(listener)
        thread.join()
        raise raised[0]

    def forked(self) -> None:
        pass


class Async:
    """The requests with pgwake.aio.Listener, in a loop that runs while one is answered."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[pgwake.aio.Listener, asyncio.Task[None]] = {}
        # The loop is who watches the descriptor: "readable" is an event that came, kept for who takes the next one.
        self._kept: dict[pgwake.aio.Listener, pgwake.Event] = {}

    def _run(self, what: Any) -> Any:
        return self._loop.run_until_complete(what)

    def open(self, words: list[str]) -> pgwake.aio.Listener:
        return pgwake.aio.Listener(**options_of(words))

    def subscribe(self, listener: pgwake.aio.Listener, timeout: str, *channels: str) -> bool:
        self._run(listener.subscribe(*channels, timeout=seconds(timeout)))
        return True

    def unsubscribe(self, listener: pgwake.aio.Listener, *channels: str) -> bool:
        self._run(listener.unsubscribe(*channels))
        return True

    def next(self, listener: pgwake.aio.Listener, timeout: str) -> Any:
        e = self._kept.pop(listener, None) or self._run(listener.next(seconds(timeout)))
        return None if e is None else shown(e)

    def read(self, listener: pgwake.aio.Listener, most: str) -> Any:
        async def take() -> list[pgwake.Event]:
            out = [self._kept.pop(listener)] if listener in self._kept else []
            while len(out) < int(most):
                e = await listener.next(0)
                if e is None:
                    break
                out.append(e)
            return out

        return [shown(e) for e in self._run(take())]

    def readable(self, listener: pgwake.aio.Listener, timeout: str) -> bool:
        if listener not in self._kept:
            e = self._run(listener.next(seconds(timeout)))
            if e is not None:
                self._kept[listener] = e
        return listener in self._kept

    def state(self, listener: pgwake.aio.Listener) -> Any:
        return listener.state._asdict()

    def reopen(self, listener: pgwake.aio.Listener) -> bool:
        listener.reopen()
        return True

    def shutdown(self, listener: pgwake.aio.Listener) -> bool:
        listener.close()
        return True

    def thread(self, listener: pgwake.aio.Listener) -> bool:
        async def wait() -> None:
            while True:
                await listener.next()

        self._tasks[listener] = self._loop.create_task(wait())
        self._run(asyncio.sleep(0))
        return True

    def join(self, listener: pgwake.aio.Listener) -> Any:
        return self._run(self._tasks.pop(listener))

    def forked(self) -> None:
        self._loop = asyncio.new_event_loop()


class Driver:
    def __init__(self, face: Blocking | Async) -> None:
        self._face = face
        self._listeners: dict[str, Any] = {}

    def obey(self, verb: str, *words: str) -> dict[str, Any]:
        if verb == "fork":
            return self._fork()
        if verb == "exit":
            os._exit(0)
        if verb == "signals":
            signal.signal(signal.SIGUSR1, lambda *_: say({"signal": True}))
            return {"is": True}
        name, *rest = words
        try:
            if verb == "open":
                self._listeners[name] = self._face.open(rest)
                return {"is": True}
            if verb == "close":
                self._face.shutdown(self._listeners.pop(name))
                return {"is": True}
            return {"is": getattr(self._face, verb)(self._listeners[name], *rest)}
        except pgwake.Error as error:
            return failure(error)

    def _fork(self) -> dict[str, Any]:
        child = os.fork()
        if child == 0:
            self._face.forked()
            return {"is": True}
        return {"is": "ended", "status": os.waitpid(child, 0)[1]}


def say(answer: dict[str, Any]) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def main() -> None:
    driver = Driver(Async() if "--asyncio" in sys.argv else Blocking())
    for line in iter(sys.stdin.readline, ""):
        say(driver.obey(*map(decoded, json.loads(line))))


main()

"""pgwake.asgi.sse in servers of Debian's; SSE_SERVER names one (uvicorn, gunicorn, hypercorn), else it is skipped."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from .support import clean_environment, eventually, host

_KIND = os.environ.get("SSE_SERVER")
if _KIND is None:
    raise unittest.SkipTest("SSE_SERVER names no server")
if shutil.which(_KIND, path="/usr/bin") is None:
    print(f"skipped: {_KIND} is not installed -- pgwake.asgi in it", file=sys.stderr)
    sys.exit(77)

_COMMANDS = {
    "uvicorn": ["uvicorn", "--host", "127.0.0.1", "--port", "{port}"],
    "gunicorn": ["gunicorn", "-w", "2", "--preload", "-k", "uvicorn.workers.UvicornWorker", "-b", "127.0.0.1:{port}"],
    "hypercorn": ["hypercorn", "-w", "2", "-b", "127.0.0.1:{port}"],
}
_WORKERS = 1 if _KIND == "uvicorn" else 2
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Browser:
    """A plain HTTP client of an event stream."""

    def __init__(self, port: int, path: str, *channels: str, method: str = "GET", receive: int = 0) -> None:
        self._socket = socket.socket()
        if receive:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self._buffer = b""
        self.comments = 0
        self.retry_after = 0
        self.warned = False
        try:
            self._socket.connect(("127.0.0.1", port))
            query = "&".join("channel=" + c for c in channels)
            # 1.0: no chunks.
            self._socket.sendall(f"{method} {path}?{query} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
            head = self._till(b"\r\n\r\n", 30)
            if not head:
                raise ConnectionError("no answer")
        except OSError:
            self.close()
            raise
        self.status = int(head.split()[1])
        self.headers = {k.lower(): v for k, v in re.findall(r"^([^:\r\n]+): (.*)\r$", head.decode(), re.M)}

    def _till(self, mark: bytes, patience: float) -> bytes | None:
        """Up to and with the mark; b"": the end; None: not in time."""
        limit = time.monotonic() + patience
        while mark not in self._buffer:
            self._socket.settimeout(max(0.001, limit - time.monotonic()))
            try:
                some = self._socket.recv(65536)
            except TimeoutError:
                return None
            except ConnectionResetError:
                return b""
            if not some:
                return b""
            self._buffer += some
        at = self._buffer.index(mark) + len(mark)
        out, self._buffer = self._buffer[:at], self._buffer[at:]
        return out

    def event(self, patience: float = 20) -> tuple[str, dict] | None:
        """Name and data; ("end", {}); None: nothing came."""
        limit = time.monotonic() + patience
        while (raw := self._till(b"\n\n", limit - time.monotonic())) is not None:
            text = raw.decode()
            if not text:
                return "end", {}
            if text.startswith(":"):
                self.comments += 1
            elif text.startswith("retry: "):
                self.retry_after = int(text[7:])
            elif text.startswith("event: shutdown"):
                self.warned = True
            else:
                found = re.fullmatch(r"event: (\w+)\ndata: (.*)\n\n", text)
                assert found, text
                return found[1], json.loads(found[2])
        return None

    def events(self, count: int) -> list:
        return [self.event() for _ in range(count)]

    def body(self) -> str:
        while self._till(b"\0", 5):
            pass
        return self._buffer.decode()

    def close(self) -> None:
        self._socket.close()


class Server:
    def __init__(self, options: dict[str, str]) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self._log = tempfile.NamedTemporaryFile()
        command = [part.format(port=self.port) for part in _COMMANDS[_KIND]] + ["tests.sse_app:app"]
        self._process = subprocess.Popen(
            # Debian's, whatever Python comes first.
            ["/usr/bin/python3", "/usr/bin/" + command[0], *command[1:]],
            cwd=_FOLDER,
            env={**clean_environment(), "SSE_OPTIONS": json.dumps(options), "PYTHONPATH": _FOLDER},
            stdout=self._log,
            stderr=self._log,
        )
        self.workers: set[str] = set()
        if not eventually(self._ready, 60):
            raise RuntimeError(f"{_KIND} does not start: {self.log()}")

    def _ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"{_KIND} has ended: {self.log()}")
        try:
            b = Browser(self.port, "/pid")
            self.workers.add(b.body())
            b.close()
        except OSError:
            pass
        return len(self.workers) == _WORKERS

    def log(self) -> str:
        with open(self._log.name) as f:
            return f.read()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, patience: float) -> bool:
        return eventually(lambda: self._process.poll() is not None, patience)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            if not self.wait(15):
                self._process.kill()
            self._process.wait()
        self._log.close()


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.host = host("--allow", f"uid:{os.getuid()} c*")
        cls.addClassCleanup(cls.host.close)
        cls.server = Server(cls.host.options())
        cls.addClassCleanup(cls.server.close)

    def setUp(self) -> None:
        self.channel = ("c_" + self._testMethodName)[:60]

    def browser(self, kind: str = "plain", *channels: str, on: Server | None = None, **how) -> Browser:
        b = Browser((on or self.server).port, "/" + kind, *(channels or (self.channel,)), **how)
        self.addCleanup(b.close)
        return b

    def browsers(self, count: int, *what: str, **how) -> list[Browser]:
        return [self.browser(*what, **how) for _ in range(count)]

    def wake(self, payload: str | None = None, channel: str = "") -> tuple[str, dict]:
        data = {"channel": channel or self.channel}
        return "wake", data if payload is None else {**data, "payload": payload}

    def notify_many(self, texts: list[str]) -> None:
        array = ",".join(f"'{text}'" for text in texts)
        self.host.sql(f"SELECT FROM unnest(ARRAY[{array}]) t, pg_notify('{self.channel}', t)")

    def in_hub(self, kind: str = "plain") -> list[dict]:
        """What the hub knows of the streams of one kind, of all processes."""
        command = [os.environ["PGWAKED"], "status", "--json", "--socket", self.host.socket]
        said = json.loads(subprocess.run(command, capture_output=True, env=clean_environment()).stdout)
        return [w for w in said["workers"] if w["name"] == "sse " + kind]

    def heard_again(self, browser: Browser) -> list:
        """Notifies until a wake comes, and says what came before it."""
        before = []
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            self.host.notify(self.channel, "again")
            while (e := browser.event(0.1)) is not None:
                self.assertNotEqual(e[0], "end", self.server.log())
                if e == self.wake("again"):
                    return before
                before.append(e)
        self.fail("deaf: " + self.server.log())

    def test_wakes_reach_all_browsers(self) -> None:
        browsers = self.browsers(12)
        first = browsers[0]
        self.assertEqual((first.status, first.headers["content-type"]), (200, "text/event-stream"))
        self.assertEqual(first.headers["cache-control"], "no-cache")
        texts = [f"{i} caf\u00e9\n\U0001f418 </script>" for i in range(100)]
        for text in texts:
            self.host.notify(self.channel, text)
        self.host.notify(self.channel)
        for b in browsers:
            self.assertEqual(b.events(101), [*map(self.wake, texts), self.wake()])
            self.assertIn(b.retry_after, range(1000, 3001))
        # One listener for each process that has browsers, and none of them has a connection of its own.
        self.assertIn(len(self.in_hub()), range(1, _WORKERS + 1))
        self.assertEqual(self.host.census("own%"), 0)

    def test_several_channels(self) -> None:
        """Each browser's own channels, and no others'."""
        one, two, both = (f"{self.channel}.{i}" for i in ("1", "2", "both"))
        a, b = self.browser("plain", both, one), self.browser("plain", both, two)
        for channel in (one, two, both):
            self.host.notify(channel, "x")
        self.assertEqual(a.events(2), [self.wake("x", one), self.wake("x", both)])
        self.assertEqual(b.events(2), [self.wake("x", two), self.wake("x", both)])

    def test_the_response_begins_once_it_listens(self) -> None:
        """S1: once the response begins, nothing that is committed is missed."""
        for i in range(30):
            channel = f"{self.channel}.{i}"
            b = self.browser("plain", channel)
            self.host.notify(channel, "x")
            self.assertEqual(b.event(), self.wake("x", channel))

    def test_a_gap_is_a_resync(self) -> None:
        browsers = self.browsers(4)
        self.assertEqual(self.host.terminate("pgwaked%"), 1)
        for b in browsers:
            before = self.heard_again(b)
            self.assertEqual(before, [("resync", {"channel": self.channel, "cause": "reconnect"})])

    def test_the_hub_is_killed(self) -> None:
        browsers = self.browsers(4)
        self.host.kill()
        try:
            for b in browsers:
                before = self.heard_again(b)
                self.assertEqual(before[0], ("resync", {"channel": self.channel, "cause": "hub_lost"}))
            self.assertIn(self.host.census("own plain"), range(1, _WORKERS + 1))
        finally:
            self.host.start()
        self.assertTrue(eventually(lambda: self.host.census("own plain") == 0))
        self.heard_again(browsers[0])

    def test_heartbeats(self) -> None:
        b = self.browser("beating")
        self.assertTrue(eventually(lambda: self.assertIsNone(b.event(0.5)) or b.comments >= 2))

    def test_a_slow_browser(self) -> None:
        """D3: a browser that does not read is dropped, and nobody else notices."""
        good, slow = self.browsers(3, "narrow"), self.browsers(2, "narrow", receive=4096)
        for i in range(200):
            texts = [f"{i}.{k} " + "x" * 7000 for k in range(5)]
            self.notify_many(texts)
            for b in good:
                self.assertEqual(b.events(5), list(map(self.wake, texts)))
        self.assertTrue(eventually(lambda: self.server.log().count("does not read is dropped") == 2), self.server.log())
        for b in slow:
            last = None
            while (e := b.event()) != ("end", {}):
                self.assertIsNotNone(e)
                last = e
            self.assertNotEqual(last, self.wake(texts[-1]))

    def test_a_burst(self) -> None:
        """One transaction brings more than the loop sends in one turn."""
        browsers = self.browsers(3, "narrow")
        texts = [f"{i} " + "x" * 7000 for i in range(40)]
        self.notify_many(texts)
        for b in browsers:
            self.assertEqual(b.events(40), list(map(self.wake, texts)))

    def test_a_browser_that_stalls(self) -> None:
        """It took some of what waits for it, and then nothing."""
        slow = self.browser("impatient", receive=4096)
        texts = [f"{i} " + "x" * 7900 for i in range(50)]

        def stalled() -> bool:
            self.notify_many(texts)
            return "took nothing for 1 s" in self.server.log()

        self.assertTrue(eventually(stalled, 30), self.server.log())
        while slow.event() != ("end", {}):
            pass

    def test_unsubscribed_when_nobody_is_left(self) -> None:
        b = self.browser("brief")
        other = self.browser("brief", self.channel + ".other")

        def count() -> int:
            return sum(w["channel_count"] for w in self.in_hub("brief"))

        self.assertEqual(count(), 2)
        b.close()
        self.assertTrue(eventually(lambda: count() == 1))
        # Once the one behind it has come, the hub has dropped the first.
        self.host.notify(self.channel, "x")
        self.host.notify(self.channel + ".other", "x")
        self.assertEqual(other.event(), self.wake("x", self.channel + ".other"))
        again = self.browser("brief")
        self.host.notify(self.channel, "y")
        self.assertEqual(again.event(), self.wake("y"))

    def test_refusals(self) -> None:
        for status, b in (
            (403, self.browser("plain", "forbidden")),
            (403, Browser(self.server.port, "/plain")),
            (400, self.browser("plain", "c%00")),
            (400, self.browser("plain", "c" * 64)),
            (405, self.browser("plain", method="POST")),
            (503, self.browser("nowhere")),
        ):
            self.assertEqual(b.status, status)
            b.close()
        self.assertEqual(b.headers["retry-after"], "2")
        statuses = [b.status for b in self.browsers(8 * _WORKERS, "lonely")]
        self.assertEqual(set(statuses), {200, 503})
        self.assertIn(statuses.count(200), range(1, _WORKERS + 1))

    def test_the_server_stops(self) -> None:
        """What was sent before arrives, and then the stream ends, well before a server gives up waiting."""
        own = Server(self.host.options())
        self.addCleanup(own.close)
        browsers = self.browsers(4, on=own)
        self.host.notify(self.channel, "last")
        for b in browsers:
            self.assertEqual(b.event(), self.wake("last"))
        began = time.monotonic()
        own.signal(signal.SIGTERM)
        for b in browsers:
            self.assertEqual(b.event(), ("end", {}))
            # Hypercorn closes its connections before anybody can say anything.
            self.assertTrue(b.warned or _KIND == "hypercorn")
        self.assertTrue(own.wait(28), own.log())
        self.assertLess(time.monotonic() - began, 28)  # gunicorn gives up after 30 s, uvicorn never
        self.assertNotRegex(own.log(), "(?i)error|exception|traceback")

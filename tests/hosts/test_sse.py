"""examples/sse-*: two pages on two workers of a server, through faults. SSE_HOST says which server.

Queries go through PgBouncer in transaction mode.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import unittest

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(_HERE), "bindings"))

from rig import Cluster, Host, eventually, quoted  # noqa: E402
from sse_host import WORKERS, Page, Pooler, Publisher, Server, worker_of  # noqa: E402

KIND = os.environ.get("SSE_HOST", "puma")
for program in (KIND.split("-")[0], "/usr/sbin/pgbouncer"):
    if shutil.which(program) is None:
        print(f"skipped: {program} is not installed -- examples/sse-*", file=sys.stderr)
        sys.exit(77)

_SCHEMA = os.path.join(os.path.dirname(os.path.dirname(_HERE)), "examples", "sse", "schema.sql")
_ROUNDS = int(os.environ.get("SSE_ROUNDS", "50"))
_PATIENCE = 30

_cluster: Cluster
_host: Host
_pooler: Pooler
_server: Server


def setUpModule() -> None:
    global _cluster, _host, _pooler, _server
    _cluster = Cluster()
    unittest.addModuleCleanup(_cluster.close)
    _host = Host(_cluster)
    unittest.addModuleCleanup(_host.close)
    with open(_SCHEMA) as f:
        _host.sql("SET client_min_messages = warning;\n" + f.read())
    _pooler = Pooler(_host)
    unittest.addModuleCleanup(_pooler.close)
    _server = Server(KIND, _host, _pooler.conninfo)
    unittest.addModuleCleanup(lambda: _server.close())


class Streams(unittest.TestCase):
    def setUp(self) -> None:
        self.stream = worker_of(self._testMethodName)

    def add(self, *payloads: str) -> None:
        """Rows of one transaction."""
        values = ",".join(f"({quoted(self.stream)}, {quoted(payload)})" for payload in payloads)
        _host.sql(f"INSERT INTO messages (stream, payload) VALUES {values}")

    def post(self, kind: str, body: str) -> int:
        return _server.request("POST", f"/{kind}?stream={self.stream}", body)

    def page(self, last_id: str | None = None, once: bool = False) -> Page:
        page = Page(_server, self.stream, last_id, once)
        self.addCleanup(page.close)
        self.wait("the stream begins", lambda: page.failed or page.started is not None)
        return page

    def wait(self, title: str, what) -> None:
        if not eventually(what, _PATIENCE):
            self.fail(f"not within {_PATIENCE} s: {title}\n{_server.log()}\n{_host.log_end()}")

    def two_pages(self) -> list[Page]:
        """On two workers. Which one takes a connection is up to the kernel."""
        first = self.page()
        for _ in range(200):
            other = self.page()
            if other.worker != first.worker:
                return [first, other]
            other.close()
        self.fail(f"all pages are at worker {first.worker}\n{_server.log()}")

    def publish(self) -> Publisher:
        publisher = Publisher(_host, self.stream)
        self.addCleanup(publisher.close)
        return publisher

    def listeners(self) -> tuple[int, int]:
        """Sessions that listen: the hub's, and workers' own."""
        return _host.census("pgwaked@%"), _host.census("own-%")

    def everything_once_in_order(self, publisher: Publisher, pages: list[Page]) -> None:
        publisher.close()
        for page in pages:
            self.wait(f"{publisher.count} rows", lambda: len(page.rows) >= publisher.count)
            self.assertEqual(page.rows, list(range(1, publisher.count + 1)))
            self.assertEqual(page.payloads, list(map(str, page.rows)))
            self.assertIsNone(page.failed)

    def flowing(self, publisher: Publisher, pages: list[Page], more: int = 20) -> None:
        """What is published from now on arrives."""
        enough = publisher.count + more
        self.wait("rows arrive", lambda: all(page.rows and page.rows[-1] >= enough for page in pages))

    def heard(self, pages: list[Page]) -> None:
        """A wake with payload arrives at each page, however long it takes until somebody listens."""

        def again() -> bool:
            _host.notify(f"pgmq.q_{self.stream}.INSERT", "again")
            return all("again" in page.wakes[mark:] for page, mark in zip(pages, marks))

        marks = [len(page.wakes) for page in pages]
        self.wait("ephemeral messages arrive", again)

    def test_durable_and_ephemeral_reach_both(self) -> None:
        pages = self.two_pages()
        for i in range(10):
            self.assertEqual(self.post("durable", f"d{i} caf\u00e9 </script>"), 204)
            self.assertEqual(self.post("ephemeral", f"e{i}\n\U0001f418"), 204)
        self.add("x", "y", "z")
        for page in pages:
            self.wait("13 rows and 10 wakes", lambda: len(page.rows) >= 13 and len(page.wakes) >= 10)
            self.assertEqual(page.rows, list(range(1, 14)))
            self.assertEqual(page.payloads, [f"d{i} caf\u00e9 </script>" for i in range(10)] + ["x", "y", "z"])
            self.assertEqual(page.wakes, [f"e{i}\n\U0001f418" for i in range(10)])
            self.wait("heartbeats", lambda: page.heartbeats > 1)
            self.assertEqual((page.opened, page.causes), (1, []))
        self.assertEqual(self.listeners(), (1, 0))

    def test_a_page_is_loaded_anew(self) -> None:
        page = self.page()
        self.add("a", "b")
        self.wait("two rows", lambda: len(page.rows) == 2)
        page.close()
        self.add("c", "d")
        again = self.page(page.last_id)
        new = self.page()
        self.add("e")
        for other, expected in ((again, ["c", "d", "e"]), (new, ["e"])):
            self.wait("the rest", lambda: len(other.rows) >= len(expected))
            self.assertEqual(other.payloads, expected)

    def test_coming_while_rows_are_published(self) -> None:
        """Nothing is lost or doubled between subscribing and reading, by a new page and by one that comes back."""
        publisher = self.publish()
        last = "0"
        for round_ in range(_ROUNDS):
            new, back = self.page(once=True), self.page(last, once=True)
            for page, begin in ((new, int(new.started or 0)), (back, int(last))):
                self.wait("rows", lambda: len(page.rows) >= 3 or page.failed)
                page.close()
                self.assertIsNone(page.failed)
                self.assertEqual(page.rows, list(range(begin + 1, begin + 1 + len(page.rows))), f"round {round_}")
            last = str(max(int(new.last_id or 0), int(back.last_id or 0)))
        self.assertEqual(self.listeners(), (1, 0))
        publisher.close()

    def test_the_hub_is_killed(self) -> None:
        pages = self.two_pages()
        publisher = self.publish()
        self.flowing(publisher, pages)
        _host.kill()
        try:
            self.flowing(publisher, pages)
            self.heard(pages)
            hub, own = self.listeners()
            self.assertEqual(hub, 0)
            self.assertIn(own, range(2, WORKERS + 1))
        finally:
            _host.start()
        self.wait("one session listens", lambda: self.listeners() == (1, 0))
        self.heard(pages)
        self.everything_once_in_order(publisher, pages)
        for page in pages:
            self.assertEqual((page.causes, page.opened), (["hub_lost"], 1))

    def test_sessions_of_postgresql_are_terminated(self) -> None:
        """The hub's, and those of the pooler that the workers read and write with."""
        pages = self.two_pages()
        publisher = self.publish()
        self.flowing(publisher, pages)
        self.assertEqual(_host.terminate("pgwaked@%"), 1)
        self.assertGreaterEqual(_host.terminate("sse-%"), 1)
        self.heard(pages)
        self.flowing(publisher, pages)
        self.everything_once_in_order(publisher, pages)
        for page in pages:
            self.assertEqual((page.causes, page.opened), (["reconnect"], 1))
        self.wait("one session listens", lambda: self.listeners() == (1, 0))

    def test_a_worker_is_killed(self) -> None:
        pages = self.two_pages()
        publisher = self.publish()
        self.flowing(publisher, pages)
        os.kill(pages[0].worker, signal.SIGKILL)
        self.wait("the page comes back", lambda: pages[0].opened == 2)
        self.flowing(publisher, pages)
        self.heard(pages)
        self.everything_once_in_order(publisher, pages)
        self.assertEqual(pages[1].opened, 1)
        self.assertEqual(self.listeners(), (1, 0))

    def test_a_slow_browser(self) -> None:
        """It is dropped at its deadline, and nobody waits for it."""
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", _server.port))
            slow.sendall(f"GET /events?stream={self.stream} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            slow.recv(1, socket.MSG_PEEK)
            pages = self.two_pages()
            count = 0

            def dropped() -> bool:
                nonlocal count
                self.add(*["x" * 7000] * 50)
                count += 50
                self.wait("the others get theirs", lambda: all(len(page.rows) >= count for page in pages))
                return "is dropped" in _server.log()

            self.wait("the slow one is dropped", dropped)
        for page in pages:
            self.assertEqual((page.rows, page.opened), (list(range(1, count + 1)), 1))

    def test_the_server_restarts(self) -> None:
        """Pages are told, come back, and have missed nothing: one worker after another, or all of them."""
        global _server
        pages = self.two_pages()
        publisher = self.publish()
        self.flowing(publisher, pages)
        old = {page.worker for page in pages}
        if KIND == "puma-phased":
            _server.process.send_signal(signal.SIGUSR1)
        else:
            _server.process.terminate()
            _server.wait()
            port = _server.port
            _server.close()
            _server = Server(KIND, _host, _pooler.conninfo, port)
        self.wait("the pages are at other workers", lambda: not old & {page.worker for page in pages})
        self.flowing(publisher, pages)
        self.heard(pages)
        self.everything_once_in_order(publisher, pages)
        for page in pages:
            self.assertGreaterEqual(page.shutdowns, 1)
        self.assertEqual(self.listeners(), (1, 0))


class Refusals(unittest.TestCase):
    def test_what_is_no_stream(self) -> None:
        for path, statuses in (
            ("/events", [403]),
            ("/events?stream=A-B", [403]),
            ("/events?stream=" + "a" * 50, [403]),
            ("/elsewhere", [404]),
            ("/durable?stream=a", [400, 405]),
        ):
            self.assertIn(_server.request("GET", path), statuses, path)

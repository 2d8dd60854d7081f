"""The blocking face."""

from __future__ import annotations

import gc
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import warnings
from datetime import timedelta

import pgwake

from .support import NOWHERE, clean_environment, eventually, host


def in_child(body) -> int:
    """Forks; the child's exit code: what ``body`` answers, 98 if it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        code = 98
        try:
            code = body()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class WithHub(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.host = host("--allow", f"uid:{os.getuid()} ok*,c*,d*")
        cls.addClassCleanup(cls.host.close)

    def listener(self, **more) -> pgwake.Listener:
        listener = pgwake.Listener(**self.host.options(**more))
        self.addCleanup(listener.close)
        return listener

    def wake(self, listener: pgwake.Listener, timeout: float = 60) -> pgwake.Event:
        for e in listener.notifies(timeout=timeout, stop_after=1):
            return e
        self.fail("no wake came")


class Events(WithHub):
    def test_payloads_and_wakes_without_one(self) -> None:
        """D6: text, bytes and process id arrive as they were sent."""
        listener = self.listener()
        listener.subscribe("c1", "c2")
        text = "caf\u00e9 \U0001f418 " + "x" * 7_000
        self.host.notify("c1", text)
        self.host.notify("c2")
        first, second = self.wake(listener), self.wake(listener)
        self.assertEqual((first.channel, first.payload, first.data), ("c1", text, text.encode()))
        self.assertEqual(first.pid, int(self.host.sql("SELECT pg_backend_pid()")[0]))
        self.assertFalse(first.read_again)
        self.assertEqual((second.channel, second.payload, second.data), ("c2", "", None))
        self.assertTrue(second.read_again)
        self.assertIn("payload of", repr(first))

    def test_bytes_that_are_not_utf8(self) -> None:
        """D6: a payload of a SQL_ASCII database is handed out byte for byte."""
        ascii_host = host(encoding="SQL_ASCII")
        self.addCleanup(ascii_host.close)
        with pgwake.Listener(**ascii_host.options()) as listener:
            listener.subscribe("c")
            ascii_host.sql("SELECT FROM pg_notify('c', convert_from('\\xe9', 'SQL_ASCII'))")
            e = self.wake(listener)
            self.assertEqual((e.data, e.payload), (b"\xe9", "\ufffd"))

    def test_many_events_in_order(self) -> None:
        """D1: more than one batch, and events larger than a batch is made for."""
        listener = self.listener()
        listener.subscribe("c1")
        self.host.sql("SELECT FROM (SELECT pg_notify('c1', i || repeat('.', 100)) FROM generate_series(1, 5000) i) x")
        seen = [int(e.payload.rstrip(".")) for e in listener.notifies(timeout=60, stop_after=5000)]
        self.assertEqual(seen, list(range(1, 5001)))

    def test_timeouts(self) -> None:
        listener = self.listener()
        listener.subscribe("c1")
        while listener.next(timeout=0.2) is not None:
            pass
        begun = time.monotonic()
        self.assertIsNone(listener.next(timeout=0.1))
        self.assertGreaterEqual(time.monotonic() - begun, 0.09)
        self.assertIsNone(listener.next(timeout=0))
        self.assertEqual(listener.drain(), [])

    def test_drain(self) -> None:
        listener = self.listener()
        listener.subscribe("c1")
        for i in range(10):
            self.host.notify("c1", str(i))
        self.assertTrue(eventually(lambda: listener.state.wakes >= 10))
        some = listener.drain(3)
        self.assertEqual(len(some), 3)
        rest = [e.payload for e in some + listener.drain() if e.kind == "wake"]
        self.assertEqual(rest, [str(i) for i in range(10)])

    def test_unsubscribe_drops_what_waits(self) -> None:
        """S8: what was read ahead is dropped too."""
        listener = self.listener()
        listener.subscribe("c1", "c2")
        self.host.notify("c1", "unwanted")
        self.host.notify("c2", "first")
        self.assertEqual(self.wake(listener).payload, "unwanted")
        self.host.notify("c1", "unwanted, too")
        self.host.notify("c2", "second")
        self.assertEqual(self.wake(listener).payload, "first")
        self.assertTrue(eventually(lambda: listener.state.wakes >= 4))
        listener.unsubscribe("c1")
        self.assertEqual(self.wake(listener).payload, "second")
        self.assertEqual(listener.channels, {"c2"})

    def test_gap_when_the_hub_is_killed(self) -> None:
        """C2: the own connection takes over, and a gap says what may be missing."""
        other = host()
        self.addCleanup(other.close)
        with pgwake.Listener(**other.options()) as listener:
            listener.subscribe("c")
            other.kill()
            gap = self.wake(listener)
            self.assertEqual((gap.gap, gap.read_again, gap.source), ("hub_lost", True, "own"))
            other.notify("c", "after")
            self.assertEqual(self.wake(listener).payload, "after")
            self.assertEqual(listener.state.source, "own")


class Subscribing(WithHub):
    def test_refusals(self) -> None:
        """C1: a refusal names channel and code; the others are subscribed."""
        listener = self.listener()
        with self.assertRaises(pgwake.Refused) as caught:
            listener.subscribe("c1", "forbidden")
        self.assertEqual((caught.exception.channel, caught.exception.code), ("forbidden", "forbidden"))
        self.assertEqual(listener.channels, {"c1"})
        with self.assertRaises(pgwake.Refused) as caught:
            listener.subscribe("c" * 64)
        self.assertEqual(caught.exception.code, "invalid_channel")
        with self.assertRaises(pgwake.Invalid):
            listener.subscribe("c\0d")
        with self.assertRaises(TypeError):
            listener.subscribe(1)  # type: ignore[arg-type]
        listener.subscribe()

    def test_a_deadline_that_passes(self) -> None:
        """C1: nothing is subscribed then."""
        with pgwake.Listener(socket="/nonexistent/s", policy="listener", database="host=/nonexistent") as listener:
            begun = time.monotonic()
            with self.assertRaises(pgwake.TimeoutError) as caught:
                listener.subscribe("c", timeout=0.2)
            self.assertLess(time.monotonic() - begun, 30)
            self.assertIsInstance(caught.exception, TimeoutError)
            self.assertEqual(listener.channels, frozenset())

    def test_events_before_the_answer_are_kept(self) -> None:
        listener = self.listener()
        listener.subscribe("c1")
        for i in range(100):
            self.host.notify("c1", str(i))
        listener.subscribe("c2")
        self.assertEqual([e.payload for e in listener.notifies(timeout=60, stop_after=100)], list(map(str, range(100))))


class Options(unittest.TestCase):
    def test_values(self) -> None:
        with pgwake.Listener(
            socket="/nonexistent/s", policy="poll", poll_interval=timedelta(milliseconds=20), allow_session_pooler=True
        ) as listener:
            listener.subscribe("c")
            self.assertTrue(next(listener.notifies(timeout=60)).read_again)

    def test_mistakes(self) -> None:
        for options in ({"polcy": "poll"}, {"policy": "sometimes"}, {"reopen": "maybe"}, {"name": "a\0b"}):
            with self.subTest(options), self.assertRaises(pgwake.Invalid):
                pgwake.Listener(**options)  # type: ignore[arg-type]

    def test_a_library_that_is_not_there(self) -> None:
        """The error names the package to install."""
        env = {**os.environ, "LIBPGWAKE": "/nonexistent/libpgwake.so.1"}
        done = subprocess.run(
            [sys.executable, "-c", "import pgwake; pgwake.Listener()"], env=env, capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt install libpgwake1", done.stderr)


class Waiting(WithHub):
    def test_a_signal_is_seen_while_it_waits(self) -> None:
        """Ctrl-C ends a wait, and a subscribe, at once."""
        for wait in ("listener.next()", "listener.subscribe('c', timeout=None)"):
            code = (
                "import pgwake, os, sys, threading, signal\n"
                "listener = pgwake.Listener(socket='/nonexistent/s', database='host=/nonexistent')\n"
                "while listener.next(timeout=0.1): pass\n"
                "try:\n"
                "    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
                f"    {wait}\n"
                "except KeyboardInterrupt: sys.exit(0)\n"
            )
            # It waits for ever if it does not see the signal. A state may come while it waits, and ends a next().
            code = code.replace("    listener.next()", "    while True: listener.next()")
            with self.subTest(wait):
                done = subprocess.run([sys.executable, "-c", code], env=os.environ, timeout=120)
                self.assertEqual(done.returncode, 0)

    def test_close_ends_what_waits_elsewhere(self) -> None:
        listener = self.listener()
        listener.subscribe("c1")
        raised: list[BaseException] = []

        def wait() -> None:
            try:
                while True:
                    listener.next()
            except pgwake.Closed as e:
                raised.append(e)

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for t in threads:
            t.start()
        time.sleep(0.1)
        listener.close()
        for t in threads:
            t.join(60)
        self.assertEqual(len(raised), 3)
        self.assertTrue(listener.closed)
        with self.assertRaises(pgwake.Closed):
            listener.next(timeout=0)
        with self.assertRaises(pgwake.Closed):
            listener.state
        self.assertEqual(list(listener), [])

    def test_waker(self) -> None:
        with pgwake.Waker("c1", "d1", **self.host.options()) as waker:
            self.assertTrue(waker.wait(60), "for what was committed before")
            self.host.notify("c1")
            self.host.notify("d1", "x")
            self.assertTrue(waker.wait(60))
            while waker.wait(0.2):
                pass
            notifying = threading.Thread(target=self.host.notify, args=("d1",))
            notifying.start()
            self.assertTrue(waker.wait())
            notifying.join()
        with self.assertRaises(pgwake.Closed):
            waker.wait()
        with pgwake.Waker("forbidden", **self.host.options()) as refused, self.assertRaises(pgwake.Refused):
            refused.wait(60)
        with pgwake.Waker("c1", socket="/nonexistent/s", database="host=/nonexistent") as nobody:
            started = time.monotonic()
            self.assertFalse(nobody.wait(0.2))
            self.assertGreaterEqual(time.monotonic() - started, 0.2)

    def test_subscribing_beside_a_thread_that_reads(self) -> None:
        """C1: the answer reaches who waits for it, whichever thread reads it."""
        listener = self.listener()

        def read() -> None:
            try:
                while True:
                    listener.next(timeout=0)
                    time.sleep(0.001)
            except pgwake.Closed:
                pass

        def preempted(*arguments) -> None:
            time.sleep(0.05)
            poll(*arguments)

        poll = pgwake._listener._poll
        self.enterContext(unittest.mock.patch("pgwake._listener._poll", preempted))

        def subscribe() -> None:
            for _ in range(5):
                listener.subscribe("c1", timeout=None)
                listener.unsubscribe("c1")

        reading, subscribing = threading.Thread(target=read), threading.Thread(target=subscribe, daemon=True)
        reading.start()
        subscribing.start()
        subscribing.join(60)
        self.assertFalse(subscribing.is_alive(), "the answer was not seen")
        listener.close()
        reading.join()

    def test_threads_share_a_listener(self) -> None:
        """Each event goes to one of them, and a subscribe works beside those that wait."""
        listener = self.listener()
        listener.subscribe("c1")
        seen: list[str] = []

        def take() -> None:
            for e in listener:
                if e.kind == "wake":
                    seen.append(e.payload)

        threads = [threading.Thread(target=take) for _ in range(3)]
        for t in threads:
            t.start()
        for i in range(50):
            self.host.notify("c1", str(i))
            if i % 10 == 0:
                listener.subscribe(f"ok{i}")
        self.assertTrue(eventually(lambda: len(seen) == 50))
        listener.close()
        for t in threads:
            t.join(60)
        self.assertEqual(sorted(map(int, seen)), list(range(50)))

    def test_fileno(self) -> None:
        """Level-triggered, one event at a time, whatever was read ahead."""
        listener = self.listener()
        listener.subscribe("c1")
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            for i in range(20):
                self.host.notify("c1", str(i))
            listener.subscribe("c2")
            seen = []
            while len(seen) < 20:
                self.assertTrue(selector.select(60))
                e = listener.next(timeout=0)
                if e is not None and e.kind == "wake":
                    seen.append(e.payload)
            self.assertEqual(seen, list(map(str, range(20))))
            while listener.next(timeout=0):
                pass
            self.assertFalse(selector.select(0.05))
            selector.unregister(listener)

    def test_fileno_and_subscribing(self) -> None:
        """What a subscribe has read while it waited for its answer is told as well."""
        listener = self.listener()
        listener.subscribe("c1")
        while listener.next(timeout=0):
            pass
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            self.host.notify("c1", "x")
            listener.subscribe("c2")
            self.assertTrue(selector.select(10))
            e = listener.next(timeout=0)
            self.assertEqual(e and e.payload, "x")

    def test_the_end_of_a_process(self) -> None:
        """With a listener open, threads in it, and none closed: no crash, no hang."""
        code = (
            "import pgwake, threading, time\n"
            "l = pgwake.Listener(socket='/nonexistent/s', policy='poll', poll_interval='10ms')\n"
            "l.subscribe('c')\n"
            "threading.Thread(target=lambda: list(l), daemon=True).start()\n"
            "time.sleep(0.1)\n"
        )
        for _ in range(10):
            done = subprocess.run([sys.executable, "-c", code], env=os.environ, timeout=120, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_nothing_is_left_behind(self) -> None:
        def use() -> None:
            listener = pgwake.Listener(**NOWHERE)
            listener.fileno()
            listener.subscribe("c")
            listener.next()
            if counter % 2:
                listener.close()

        counter = 0
        use()
        gc.collect()
        descriptors, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        for counter in range(20):
            use()
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)
        # A thread that has ended may stand in /proc for a moment, before and after.
        self.assertTrue(eventually(lambda: len(os.listdir("/proc/self/task")) <= threads))


class Forking(WithHub):
    def test_a_child_goes_on_by_itself(self) -> None:
        """C8: with what was subscribed, and a gap that says so; the parent notices nothing."""
        listener = self.listener()
        listener.subscribe("c1", "c2")
        listener.fileno()

        def child() -> int:
            gaps = {e.channel: e.gap for e in listener.notifies(timeout=60, stop_after=2)}
            if gaps != {"c1": "forked", "c2": "forked"}:
                return 1
            listener.subscribe("ok1")
            return 0 if listener.channels == {"c1", "c2", "ok1"} else 2

        self.assertEqual(in_child(child), 0)
        self.assertEqual(in_child(lambda: in_child(child)), 0)
        self.host.notify("c1", "the parent's")
        self.assertEqual(self.wake(listener).payload, "the parent's")
        self.assertEqual(listener.state.gaps, 0)

    def test_by_hand(self) -> None:
        listener = self.listener(reopen="manual")
        listener.subscribe("c1")

        def child() -> int:
            try:
                listener.next(timeout=0)
                return 1
            except pgwake.Forked:
                pass
            listener.reopen()
            return 0 if self.wake(listener).gap == "forked" else 2

        self.assertEqual(in_child(child), 0)
        listener.reopen()  # not a child: nothing to do

    def test_while_other_threads_wait(self) -> None:
        """The child's locks are its own, whoever held the parent's."""
        listener = self.listener()
        listener.subscribe("c1")
        threads = [threading.Thread(target=lambda: list(listener)) for _ in range(3)]
        for t in threads:
            t.start()
        for _ in range(5):
            self.assertEqual(in_child(lambda: 0 if self.wake(listener).gap == "forked" else 1), 0)
        listener.close()
        for t in threads:
            t.join(60)

    def test_close_in_the_child(self) -> None:
        listener = self.listener()
        listener.subscribe("c1")

        def child() -> int:
            listener.close()
            return 0

        self.assertEqual(in_child(child), 0)
        self.host.notify("c1", "still here")
        self.assertEqual(self.wake(listener).payload, "still here")

    def test_multiprocessing(self) -> None:
        """A pool of forked workers, each with the listener of the parent."""
        code = (
            "import multiprocessing, pgwake, sys, time\n"
            "l = pgwake.Listener(socket='/nonexistent/s', policy='poll', poll_interval='20ms')\n"
            "l.subscribe('c')\n"
            "def work(_):\n    return next(l.notifies(timeout=60)).channel\n"
            "begun = time.monotonic()\n"
            "with multiprocessing.get_context('fork').Pool(4) as pool: print(pool.map(work, range(8)))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env={**clean_environment(), **_library()}, capture_output=True, text=True,
            timeout=180,
        )
        self.assertEqual((done.stdout.strip(), done.returncode), (str(["c"] * 8), 0), done.stderr)


def _library() -> dict[str, str]:
    return {"LIBPGWAKE": os.environ["LIBPGWAKE"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}


signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    unittest.main()

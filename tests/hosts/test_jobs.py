"""examples/jobs: the order of claims on a real server, and a job host through faults."""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

_HERE = os.path.dirname(os.path.abspath(__file__))
_PROJECT = os.path.dirname(os.path.dirname(_HERE))
sys.path.insert(0, os.path.join(_PROJECT, "tests", "bindings"))

from rig import Cluster, Host, clean_environment, eventually  # noqa: E402

if importlib.util.find_spec("psycopg") is None:
    print("skipped: python3-psycopg is not installed -- examples/jobs", file=sys.stderr)
    sys.exit(77)

_EXAMPLE = os.path.join(_PROJECT, "examples", "jobs")
_QUEUES = ["urgent", "mail", "images", "reports", "rest"]

_cluster: Cluster | None = None


def setUpModule() -> None:
    global _cluster
    _cluster = Cluster()


def tearDownModule() -> None:
    assert _cluster is not None
    _cluster.close()


class Jobs(unittest.TestCase):
    def setUp(self) -> None:
        self.host = Host(_cluster)
        self.addCleanup(self.host.close)
        with open(_EXAMPLE + "/schema.sql") as f:
            # One statement for the session that takes a line at a time.
            self.host.sql("SET client_min_messages = warning;\n" + f.read())

    def add(self, *jobs: tuple[str, str]) -> None:
        values = ",".join(f"('{queue}', '{payload}')" for queue, payload in jobs)
        self.host.sql(f"INSERT INTO jobs (queue, payload) VALUES {values}")

    def waiting(self) -> list[int]:
        """Ids of all jobs, in the order in which they must be taken."""
        order = ",".join(f"'{queue}'" for queue in _QUEUES)
        return list(map(int, self.host.sql(f"SELECT id FROM jobs ORDER BY array_position(ARRAY[{order}], queue), id")))


class Priority(Jobs):
    """Where fewer are taken than wait, queues listed earlier are drained first."""

    # What changes how a planner reads tables, each against its default.
    SETTINGS = {
        "enable_seqscan": ("on", "off"),
        "enable_indexscan": ("on", "off"),
        "enable_bitmapscan": ("on", "off"),
        "enable_sort": ("on", "off"),
        "random_page_cost": ("4", "0.1", "100"),
    }
    PARALLEL = "; ".join(
        f"SET {setting}"
        for setting in (
            "parallel_setup_cost = 0",
            "parallel_tuple_cost = 0",
            "min_parallel_table_scan_size = 0",
            "min_parallel_index_scan_size = 0",
            "max_parallel_workers_per_gather = 4",
            "jit = off",  # plans that are forbidden count as dear, and compiling them takes long
        )
    )
    ARRAY = "ARRAY[" + ",".join(f"'{queue}'" for queue in _QUEUES) + "]"

    def fill(self, count: int, seed: int) -> None:
        """Of very different sizes, mixed, and the least important ones first on disk."""
        dice = random.Random(seed)
        jobs = [(queue, "x") for i, queue in enumerate(_QUEUES) for _ in range(count * (i + 1) ** 2 // 20 + 3)]
        dice.shuffle(jobs)
        jobs.sort(key=lambda job: -_QUEUES.index(job[0]) if dice.random() < 0.7 else 0)
        self.add(*jobs)
        self.host.sql("UPDATE jobs SET payload = 'y' WHERE id % 7 = 0")  # these rows move
        self.host.sql("ANALYZE jobs")

    def test_whatever_the_planner_likes(self) -> None:
        names = list(self.SETTINGS)
        new = int(self.host.sql("SHOW server_version_num")[0]) >= 160000
        forced = "debug_parallel_query" if new else "force_parallel_mode"
        dice = random.Random(1)
        self.fill(100, 1)
        expected = self.waiting()
        for force in ("off", "on"):
            for values in itertools.product(*self.SETTINGS.values()):
                settings = "; ".join(f"SET {name} = {value}" for name, value in zip(names, values))
                self.host.sql(f"{self.PARALLEL}; SET {forced} = {force}; {settings}; DISCARD PLANS")
                most = dice.randint(1, len(expected))
                taken = self.host.sql(
                    f"BEGIN; SELECT id FROM claim_jobs({self.ARRAY}, {most}, '1 min') "
                    "WITH ORDINALITY ORDER BY ordinality; ROLLBACK"
                )
                self.assertEqual([int(i) for i in taken], expected[:most], settings)

    def test_many_at_once(self) -> None:
        """All together take the first ones, none of them twice, and each in order."""
        for seed in range(3):
            self.host.sql("TRUNCATE jobs")
            self.fill(300, seed)
            expected = self.waiting()
            taken: list[list[int]] = []

            def claim() -> None:
                session = self.host.session()
                for _ in range(10):
                    rows = session(
                        f"SELECT id FROM claim_jobs({self.ARRAY}, 13, '1 min') WITH ORDINALITY ORDER BY ordinality"
                    )
                    taken.append(list(map(int, rows)))
                session.close()

            threads = [threading.Thread(target=claim) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rank = {number: i for i, number in enumerate(expected)}
            for some in taken:
                self.assertEqual(some, sorted(some, key=rank.__getitem__))
            everything = sorted(itertools.chain(*taken), key=rank.__getitem__)
            self.assertEqual(everything, expected[: len(everything)])

    def test_what_is_claimed_comes_back(self) -> None:
        """Once its time is over, at its old place; jobs for later are left alone until then."""
        self.add(("mail", "a"), ("urgent", "b"))
        self.host.sql("INSERT INTO jobs (queue, payload, visible_at) VALUES ('urgent', 'later', now() + '1 hour')")
        claim = f"SELECT payload, attempts FROM claim_jobs({self.ARRAY}, 1, '2 s')"
        self.assertEqual(self.host.sql(claim), ["b|1"])
        self.assertEqual(self.host.sql(claim), ["a|1"])
        self.assertTrue(eventually(lambda: self.host.sql(claim) == ["b|2"]))


class JobHost(Jobs):
    def workers(self, queues: str = "urgent,mail,rest", **more: object) -> subprocess.Popen:
        options = {"socket": self.host.socket, "database": self.host.conninfo, "queues": queues, "poll": 200, **more}
        log = tempfile.NamedTemporaryFile()
        self.addCleanup(log.close)
        self.log = log.name
        process = subprocess.Popen(
            ["/usr/bin/python3", _EXAMPLE + "/worker.py", *(f"--{key}={value}" for key, value in options.items())],
            env={**clean_environment(), "PYTHONPATH": _PROJECT + "/client/python"},
            stdout=log,
            stderr=log,
        )

        def stop() -> None:
            process.terminate()
            process.wait()

        self.addCleanup(stop)
        count = int(options.get("processes", 1))
        self.assertTrue(eventually(lambda: self.said().count("queues: ") >= count), self.said())
        return process

    def said(self) -> str:
        with open(self.log) as f:
            return f.read()

    def done(self) -> list[str]:
        return self.host.sql("SELECT payload FROM done ORDER BY at")

    def run_one(self, payload: str, queue: str = "rest") -> float:
        """Adds a job; seconds until it is done."""
        began = time.monotonic()
        self.add((queue, payload))
        self.assertTrue(eventually(lambda: payload in self.done(), 25), self.said())
        return time.monotonic() - began

    def warm(self) -> None:
        """Until they are woken, which is well before the safety poll."""
        number = itertools.count()
        self.assertTrue(eventually(lambda: self.run_one(f"warm {next(number)}") < 5, 60), self.said())

    def no_listeners(self) -> None:
        """Only the hub listens; the workers' sessions are those that they work with."""
        names = self.host.sql(
            "SELECT DISTINCT substr(application_name, 1, 11) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND application_name NOT LIKE 'pgwaked@%'"
        )
        self.assertEqual(names, ["jobs worker"])

    def test_woken_by_the_hub(self) -> None:
        self.workers(processes=2, safety=600)
        self.warm()
        for i in range(20):
            self.run_one(f"job {i}")
        self.no_listeners()
        self.assertEqual(len(self.done()), len(set(self.done())))

    def test_polls_while_the_hub_is_gone(self) -> None:
        """Within one heartbeat of the hub's end, and no longer than until it is back."""
        self.workers(processes=2, safety=600)
        self.warm()
        self.host.kill()
        for i in range(5):
            self.run_one(f"gone {i}")
            self.no_listeners()
        self.host.start()
        self.warm()
        self.no_listeners()

    def test_polls_while_the_hub_is_unhealthy(self) -> None:
        """It lives, and PostgreSQL does not let it in; sessions that are there go on."""
        self.workers(safety=600)
        self.warm()
        other = _cluster.sql
        other(f"ALTER DATABASE {self.host.name} ALLOW_CONNECTIONS false")
        self.assertEqual(self.host.terminate("pgwaked@%"), 1)
        for i in range(5):
            self.run_one(f"unhealthy {i}")
        other(f"ALTER DATABASE {self.host.name} ALLOW_CONNECTIONS true")
        self.assertTrue(eventually(lambda: self.host.census("pgwaked@%") == 1, 60))
        self.warm()
        self.no_listeners()

    def test_the_safety_poll(self) -> None:
        """A job whose notification nobody sent is found all the same."""
        self.workers(safety=1)
        self.warm()
        self.host.sql("ALTER TABLE jobs DISABLE TRIGGER jobs_added")
        self.run_one("silent")

    def test_a_worker_is_killed(self) -> None:
        """The job that it worked on is done by another one when its claim runs out, and only once."""
        self.workers(processes=2, safety=600, hold=6, batch=1)  # longer than the job takes on a busy machine
        self.warm()
        self.add(("urgent", "sleep 1.5"))
        # Its name in PostgreSQL ends with its process id.
        working = (
            "SELECT split_part(application_name, ' ', 3) FROM pg_stat_activity "
            "WHERE application_name LIKE 'jobs worker%' AND state = 'idle in transaction'"
        )
        self.assertTrue(eventually(lambda: self.host.sql(working) != []))
        os.kill(int(self.host.sql(working)[0]), signal.SIGKILL)
        self.assertTrue(eventually(lambda: "sleep 1.5" in self.done(), 30), self.said())
        self.assertEqual(self.host.sql("SELECT attempt FROM done WHERE payload = 'sleep 1.5'"), ["2"])
        self.assertIn("another one starts", self.said())

    def test_queues_by_wildcard(self) -> None:
        """Those that come later, too: the table of queues notifies."""
        self.workers("urgent,mail.*", safety=600, refresh=600)
        self.run_one("a", "mail.z")
        self.run_one("b", "mail.a")
        self.add(("other", "no"))
        self.run_one("c", "urgent")
        self.assertIn("queues: urgent, mail.a, mail.z\n", self.said())
        self.assertNotIn("no", self.done())

    def test_stopping(self) -> None:
        """The job at hand is finished, and the rest of what was claimed given back at once."""
        process = self.workers(safety=600, hold=600)
        self.add(("rest", "sleep 3"), ("rest", "second"))
        self.assertTrue(eventually(lambda: self.host.sql("SELECT true FROM jobs WHERE attempts = 1") == ["t", "t"]))
        process.terminate()
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(self.done(), ["sleep 3"])
        self.assertEqual(self.host.sql("SELECT payload FROM jobs WHERE visible_at <= now()"), ["second"])

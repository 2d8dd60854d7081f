"""A PostgreSQL server and a hub of one's own, for the tests of the bindings.

PGWAKED names the hub's program, LIBPGWAKE the library; PGWAKE_TEST_POSTGRES the folder of initdb and postgres, else
the newest of the host.
"""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Callable

_SETTINGS = """
fsync = off
full_page_writes = off
synchronous_commit = off
autovacuum = off
shared_buffers = 32MB
max_connections = 60
listen_addresses = ''
"""

# A machine that is slow must not look like a hub or a server that has died, unless a test is about that.
_CALM_HUB = {"--drain-grace": "60s", "--heartbeat": "20s", "--connect-timeout": "60s"}
_CALM_CLIENT = {
    "fallback_limit": "0",
    "unhealthy_grace": "60s",
    "welcome_timeout": "60s",
    "ack_timeout": "60s",
    "handover_deadline": "60s",
    "connect_timeout": "60s",
    "probe_interval": "60s",
    "probe_timeout": "60s",
}


def eventually(what: Callable[[], object], patience: float = 60) -> bool:
    """Looks until it is true; false: not within ``patience`` seconds."""
    until = time.monotonic() + patience
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def clean_environment() -> dict[str, str]:
    """Without what steers libpq, pgwake, or a service manager's notification."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "LISTEN_", "NOTIFY_SOCKET", "WATCHDOG_", "JOURNAL_STREAM"))
    }


def _programs() -> str:
    named = os.environ.get("PGWAKE_TEST_POSTGRES")
    if named:
        return named
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if not found:
        raise RuntimeError("no PostgreSQL server under /usr/lib/postgresql")
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4])))


class Cluster:
    """A private PostgreSQL, on a Unix socket alone."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="pgwake-bindings.", dir="/tmp")
        self._bin = _programs()
        self._user = "postgres" if os.getuid() == 0 else None
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        os.chmod(self.folder, 0o711)
        self._server: subprocess.Popen[bytes] | None = None
        data = self.folder + "/data"
        self._run(
            "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"
        )
        with open(data + "/postgresql.auto.conf", "a") as f:
            f.write(_SETTINGS + f"unix_socket_directories = '{self.folder}'\n")
        self._server = subprocess.Popen(
            self._command("postgres", "-D", data),
            cwd="/",
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=open(self.folder + "/log", "wb") if self._user is None else subprocess.DEVNULL,
        )
        if not eventually(lambda: self._sql_works(), 120):
            self._stop()
            raise RuntimeError("PostgreSQL does not start")
        self.sql = Sql(self._bin, self.conninfo("postgres"))

    def _command(self, program: str, *arguments: str) -> list[str]:
        start = []
        if self._user is not None:
            start = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        return [*start, f"{self._bin}/{program}", *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(program, *arguments), cwd="/", env=clean_environment(), capture_output=True, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr}")

    def _sql_works(self) -> bool:
        return (
            subprocess.run(
                [f"{self._bin}/psql", "-XAtc", "SELECT 1", self.conninfo("postgres")],
                env=clean_environment(),
                capture_output=True,
            ).returncode
            == 0
        )

    def conninfo(self, database: str) -> str:
        return f"host={self.folder} user=postgres dbname={database}"

    def database(self, name: str, encoding: str = "UTF8") -> Sql:
        """A new database, and a session in it."""
        self.sql(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        return self.session(name)

    def session(self, database: str) -> Sql:
        return Sql(self._bin, self.conninfo(database))

    def close(self) -> None:
        if self._server is not None:
            self.sql.close()
        self._stop()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Sql:
    """A session that stays: psql, fed one statement after another."""

    def __init__(self, folder: str, conninfo: str) -> None:
        self._psql = subprocess.Popen(
            [folder + "/psql", "-XAtq", "-v", "ON_ERROR_STOP=0", conninfo],
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __call__(self, statement: str) -> list[str]:
        """The rows of its answer."""
        assert self._psql.stdin is not None and self._psql.stdout is not None
        self._psql.stdin.write(statement.encode() + b";\n\\echo ---done---\n")
        self._psql.stdin.flush()
        rows = []
        for line in self._psql.stdout:
            text = line.decode("utf-8", "replace").rstrip("\n")
            if text == "---done---":
                return rows
            rows.append(text)
        raise RuntimeError("psql has ended")

    def close(self) -> None:
        assert self._psql.stdin is not None and self._psql.stdout is not None
        self._psql.stdin.close()
        self._psql.stdout.close()
        self._psql.wait()


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Host:
    """A database and a hub on it."""

    _count = 0

    def __init__(self, cluster: Cluster, *arguments: str, encoding: str = "UTF8") -> None:
        Host._count += 1
        self.name = f"host{Host._count}"
        self.cluster = cluster
        self.sql = cluster.database(self.name, encoding)
        self.conninfo = cluster.conninfo(self.name)
        self.folder = tempfile.mkdtemp(prefix="pgwake-hub.", dir="/tmp")
        self.socket = self.folder + "/hub.sock"
        self.arguments = arguments
        self._hub: subprocess.Popen[bytes] | None = None
        self._log = open(self.folder + "/log", "ab")
        self.start()
        # A worker that came before would be told of it later, by an event that the tests do not ask for.
        if not eventually(self.healthy):
            raise RuntimeError("pgwaked does not become healthy: " + self.log_end())

    def start(self, *arguments: str) -> None:
        """The hub, again, with other arguments where they are given."""
        self.arguments = arguments or self.arguments
        calm = [word for name, value in _CALM_HUB.items() if name not in self.arguments for word in (name, value)]
        self._hub = subprocess.Popen(
            [os.environ["PGWAKED"], "run", "--socket", self.socket, "--database", self.conninfo]
            + [*self.arguments, *calm],
            env=clean_environment(),
            stdout=self._log,
            stderr=self._log,
        )
        if not eventually(self._accepts):
            raise RuntimeError("pgwaked does not start; its log is " + self.folder + "/log")

    def _accepts(self) -> bool:
        assert self._hub is not None
        if self._hub.poll() is not None:
            raise RuntimeError("pgwaked has ended: " + open(self.folder + "/log").read())
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(self.socket) == 0

    def healthy(self) -> bool:
        """As its operator is told: it listens, and has told its workers so."""
        command = [os.environ["PGWAKED"], "status", "--socket", self.socket]
        return subprocess.run(command, env=clean_environment(), capture_output=True).returncode == 0

    def kill(self) -> None:
        """At once, as by the OOM killer."""
        assert self._hub is not None
        self._hub.kill()
        self._hub.wait()

    def stop(self) -> None:
        """As systemctl stop: workers are handed over."""
        assert self._hub is not None
        self._hub.terminate()
        self._hub.wait()

    def alive(self) -> bool:
        return self._hub is not None and self._hub.poll() is None

    def signal(self, number: int) -> None:
        """To the hub."""
        assert self._hub is not None
        self._hub.send_signal(number)

    def log_end(self) -> str:
        """The last lines of the hub's log."""
        with open(self.folder + "/log", errors="replace") as f:
            return "".join(f.readlines()[-8:])

    def session(self) -> Sql:
        """Another session in its database."""
        return self.cluster.session(self.name)

    def notify(self, channel: str, payload: str | None = None) -> None:
        self.sql(f"SELECT FROM pg_notify({quoted(channel)}, {quoted(payload or '')})")

    def terminate(self, like: str) -> int:
        """Ends the sessions whose application_name is like that; how many."""
        return len(
            self.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE application_name LIKE {quoted(like)} AND datname = current_database()"
            )
        )

    def census(self, like: str) -> int:
        return int(
            self.sql(
                f"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE {quoted(like)} "
                "AND datname = current_database()"
            )[0]
        )

    def options(self, **more: str) -> dict[str, str]:
        """Of a client with a quick return to the hub and long patience for all else."""
        return {
            **_CALM_CLIENT,
            "socket": self.socket,
            "database": self.conninfo,
            "application_name": "own-" + self.name,
            "return_delay": "200ms",
            "return_delay_max": "1s",
            "poll_interval": "100ms",
            **more,
        }

    def close(self) -> None:
        if self._log.closed:
            return
        self.kill()
        self.sql.close()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

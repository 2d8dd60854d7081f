"""The servers of examples/sse-*, pages that look at them, and somebody who publishes without end."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from typing import Callable

from rig import Host, Sql, clean_environment, eventually, quoted

_PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_EXAMPLES = os.path.join(_PROJECT, "examples")
WORKERS = 4


def _puma(config: str) -> Callable[[int], tuple[list[str], dict[str, str]]]:
    def command(port: int) -> tuple[list[str], dict[str, str]]:
        return (
            ["puma", "-C", f"{_EXAMPLES}/sse-puma/{config}.rb"],
            {"BIND": f"tcp://127.0.0.1:{port}", "RUBYLIB": _PROJECT + "/client/ruby/lib"},
        )

    return command


def _gunicorn(port: int) -> tuple[list[str], dict[str, str]]:
    return (
        # Debian's, whatever Python comes first.
        ["/usr/bin/python3", "/usr/bin/gunicorn", "-c", f"{_EXAMPLES}/sse-gunicorn/gunicorn.conf.py"],
        {"BIND": f"127.0.0.1:{port}", "PYTHONPATH": _PROJECT + "/client/python"},
    )


def _node(port: int) -> tuple[list[str], dict[str, str]]:
    return (
        ["node", _EXAMPLES + "/sse-node/server.js"],
        # The npm package as the build has put it together.
        {"BIND": f"127.0.0.1:{port}", "NODE_PATH": os.environ.get("NODE_PATH", "")},
    )


COMMANDS = {"puma": _puma("puma"), "puma-phased": _puma("phased"), "gunicorn": _gunicorn, "node": _node}


class Pooler:
    """PgBouncer in transaction mode: an application's queries go through it, and no LISTEN can."""

    def __init__(self, host: Host) -> None:
        self.folder = tempfile.mkdtemp(prefix="pgwake-pooler.", dir="/tmp")
        os.chmod(self.folder, 0o777)
        self.conninfo = f"host={self.folder} port=6432 user=postgres dbname={host.name}"
        with open(self.folder + "/ini", "w") as f:
            f.write(
                f"[databases]\n* = host={host.cluster.folder} user=postgres\n"
                f"[pgbouncer]\nlisten_port = 6432\nunix_socket_dir = {self.folder}\nauth_type = any\n"
                "pool_mode = transaction\nmax_client_conn = 100\ndefault_pool_size = 4\n"
            )
        user = ["-u", "postgres"] if os.getuid() == 0 else []
        self._process = subprocess.Popen(
            ["/usr/sbin/pgbouncer", "-q", *user, self.folder + "/ini"],
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if not eventually(lambda: os.path.exists(self.folder + "/.s.PGSQL.6432"), 30):
            self.close()
            raise RuntimeError("pgbouncer does not start")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Server:
    """One of the examples, on a port of its own."""

    def __init__(self, kind: str, host: Host, database: str, port: int | None = None) -> None:
        if port is None:
            with socket.create_server(("127.0.0.1", 0)) as s:
                port = s.getsockname()[1]
        self.port = port
        self._log = tempfile.NamedTemporaryFile(prefix="pgwake-sse.")
        command, environment = COMMANDS[kind](port)
        options = {**host.options(), "fallback_application_name": "own-" + host.name}
        del options["application_name"]
        listener = {"PGWAKE_" + name.upper(): value for name, value in options.items()}
        self.process = subprocess.Popen(
            command,
            env={
                **clean_environment(),
                **listener,
                **environment,
                "DATABASE": database,
                "WORKERS": str(WORKERS),
                "HEARTBEAT": "0.5",
                "WRITE_TIMEOUT": "4",
            },
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        try:
            if not eventually(self.answers):
                raise RuntimeError("the server does not answer: " + self.log())
        except BaseException:
            self.close()
            raise

    def log(self) -> str:
        with open(self._log.name, errors="replace") as f:
            return f.read()[-4000:]

    def answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError("the server has ended: " + self.log())
        try:
            return self.request("GET", "/") == 200
        except OSError:
            return False

    def request(self, method: str, path: str, body: str | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, (body or "").encode(), {"Connection": "close"})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def wait(self, patience: float = 30) -> None:
        self.process.wait(patience)

    def close(self) -> None:
        if self._log.closed:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._log.close()


class Page:
    """Does what the page in a browser does: EventSource, with its coming back."""

    def __init__(self, server: Server, stream: str, last_id: str | None = None, once: bool = False) -> None:
        self.server = server
        self.first_id = last_id
        self.last_id: str | None = None
        self.started: str | None = None
        self.rows: list[int] = []
        self.payloads: list[str] = []
        self.wakes: list[str] = []
        self.causes: list[str] = []
        self.shutdowns = 0
        self.heartbeats = 0
        self.opened = 0
        self.worker = 0
        self.failed: str | None = None
        self._path = "/events?stream=" + stream
        self._once = once
        self._pause = 0.1
        self._socket: socket.socket | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            try:
                self._stream()
            except OSError:
                pass
            except Exception as error:
                self.failed = repr(error)
                return
            if self._once:
                return
            time.sleep(self._pause)

    def _stream(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port), 30) as self._socket:
            path = self._path if self.first_id is None else f"{self._path}&last_event_id={self.first_id}"
            header = "" if self.last_id is None else f"Last-Event-ID: {self.last_id}\r\n"
            self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
            answer = http.client.HTTPResponse(self._socket)
            answer.begin()
            if answer.status == 503:
                return
            if answer.status != 200:
                raise RuntimeError(f"status {answer.status}")
            self.worker = int(answer.getheader("x-worker") or 0)
            self.opened += 1
            message: dict[str, str] = {}
            while not self._closed:
                line = answer.readline().decode().rstrip("\n")
                if line == "":
                    if not message:
                        return  # the end
                    self._take(message)
                    message = {}
                else:
                    name, _, value = line.partition(":")
                    message[name] = value.strip()

    def _take(self, message: dict[str, str]) -> None:
        if "" in message:
            self.heartbeats += 1
        if "id" in message:
            self.last_id = message["id"]
        if "data" not in message:
            return
        data = json.loads(message["data"])
        kind = message["event"]
        if kind == "row":
            self.rows.append(data["id"])
            self.payloads.append(data["payload"])
        elif kind == "wake":
            self.wakes.append(data["payload"])
        elif kind == "resync":
            self.causes.append(data["cause"])
        elif kind == "start":
            self.started = data["id"]
        elif kind == "shutdown":
            self.shutdowns += 1
        else:
            raise RuntimeError(f"an event {kind}")

    def close(self) -> None:
        self._closed = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._thread.join()


class Publisher:
    """Rows of a stream, one after another, in a session of its own."""

    def __init__(self, host: Host, stream: str) -> None:
        self.count = 0
        self._stream = stream
        self._session: Sql = host.session()
        self._closed = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            insert = f"INSERT INTO messages (stream, payload) VALUES ({quoted(self._stream)}, '{self.count + 1}')"
            self._session(insert + " RETURNING id")
            self.count += 1
            time.sleep(0.003)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._thread.join()
            self._session.close()


def worker_of(name: str) -> str:
    """A name that a stream may have."""
    return re.sub("[^a-z0-9_]", "_", name.lower())[-49:]

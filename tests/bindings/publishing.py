"""What is notified while other things happen."""

from __future__ import annotations

import threading

from rig import Sql


def sql_text(raw: bytes) -> str:
    return f"convert_from('\\x{raw.hex()}', getdatabaseencoding())"


class Publisher:
    """Numbers on some channels, each transaction the next one, until it is stopped."""

    def __init__(self, sql: Sql, channels: list[bytes]) -> None:
        self._sql = sql
        self._channels = channels
        self._stop = threading.Event()
        self.last = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            self.last += 1
            calls = ", ".join(f"pg_notify({sql_text(c)}, '{self.last}')" for c in self._channels)
            self._sql(f"SELECT FROM (SELECT {calls}) AS calls")

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        self._sql.close()
        return self.last

"""One server and one hub for all tests of this package."""

from __future__ import annotations

import atexit
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "tests", "bindings"))

from rig import Cluster, Host, clean_environment, eventually  # noqa: E402

_cluster: Cluster | None = None

__all__ = ["host", "clean_environment", "eventually", "NOWHERE"]

# Nobody to talk to: reminders come by the policy.
NOWHERE = {"socket": "/nonexistent/pgwake.sock", "policy": "poll", "poll_interval": "20ms"}


def host(*arguments: str, encoding: str = "UTF8") -> Host:
    global _cluster
    if _cluster is None:
        _cluster = Cluster()
        owner, cluster = os.getpid(), _cluster
        atexit.register(lambda: cluster.close() if os.getpid() == owner else None)
    return Host(_cluster, *arguments, encoding=encoding)

"""What calls raise."""

from __future__ import annotations

import builtins


class Error(Exception):
    """A call of the library failed. All other errors of this package derive from it."""


class LibraryMissing(Error, OSError):
    """libpgwake was not found, or is too old."""


class Refused(Error):
    """A channel was refused, and will be again.

    ``code`` is the hub's, such as ``forbidden`` or ``invalid_channel``; ``channel`` the name.
    """

    def __init__(self, channel: str, reason: str) -> None:
        super().__init__(f"{channel}: {reason}")
        self.channel = channel
        self.code = reason.partition(":")[0]


class TimeoutError(Error, builtins.TimeoutError):
    """Not within the deadline; what was asked for is not so."""


class Closed(Error):
    """The listener was closed, or the channel was unsubscribed meanwhile."""


class Invalid(Error, ValueError):
    """An argument or a setting makes no sense."""


class Forked(Error):
    """The listener was opened by the parent process, and ``reopen="manual"`` was asked for."""

"""PostgreSQL notifications through the host's one LISTEN connection (pgwaked), with a fallback of one's own.

>>> import pgwake
>>> with pgwake.Listener() as listener:  # doctest: +SKIP
...     listener.subscribe("orders")
...     for event in listener:
...         if event.read_again:
...             read_orders()
"""

from ._errors import Closed, Error, Forked, Invalid, LibraryMissing, Refused, TimeoutError
from ._events import Event, State
from ._listener import Listener
from ._waker import Waker

__version__ = "0.1.0"

__all__ = [
    "Closed",
    "Error",
    "Event",
    "Forked",
    "Invalid",
    "LibraryMissing",
    "Listener",
    "Refused",
    "State",
    "TimeoutError",
    "Waker",
]

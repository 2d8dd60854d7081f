"""libpgwake through ctypes.

Calls that never wait go through PyDLL: they keep the interpreter's lock, which is cheaper than giving it up.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from ._errors import Closed, Error, Forked, Invalid, LibraryMissing, Refused, TimeoutError

OK, TIMEOUT, NACK, FORKED, CLOSED, NOMEM, INVALID, SYSTEM = 0, -1, -2, -3, -4, -5, -6, -7

_handle = ctypes.c_void_p
_int = ctypes.c_int
_text = ctypes.c_char_p
_size = ctypes.c_size_t

# name, answer, arguments, whether it may wait
_functions: tuple[tuple[str, Any, tuple[Any, ...], bool], ...] = (
    ("pgwake_options_new", ctypes.c_void_p, (), False),
    ("pgwake_options_free", None, (ctypes.c_void_p,), False),
    ("pgwake_options_set", _int, (ctypes.c_void_p, _text, _text), False),
    ("pgwake_options_ignore_environment", _int, (ctypes.c_void_p,), False),
    ("pgwake_open", _int, (ctypes.POINTER(_handle), ctypes.c_void_p), True),
    ("pgwake_close", None, (_handle,), True),
    ("pgwake_shutdown", _int, (_handle,), False),
    ("pgwake_reopen", _int, (_handle,), True),
    ("pgwake_reopen_subscribed", _int, (_handle,), True),
    ("pgwake_subscribe_start", _int, (_handle, ctypes.POINTER(_text), _size, _int, ctypes.c_uint64), False),
    ("pgwake_unsubscribe", _int, (_handle, _text), False),
    ("pgwake_fd", _int, (_handle,), False),
    ("pgwake_read", _int, (_handle, ctypes.c_void_p, _size, ctypes.POINTER(_size), _size, _int), False),
    ("pgwake_state_json", _int, (_handle, ctypes.c_char_p, _size), False),
    ("pgwake_last_error", _text, (), False),
    ("pgwake_version", _text, (), False),
)


class Library:
    """The functions of one loaded libpgwake, by their names without ``pgwake_``."""

    def __init__(self, path: str) -> None:
        waiting = ctypes.CDLL(path)
        quick = ctypes.PyDLL(path)
        for name, answer, arguments, may_wait in _functions:
            function = getattr(waiting if may_wait else quick, name)
            function.restype = answer
            function.argtypes = arguments
            setattr(self, name[len("pgwake_") :], function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def why(self) -> str:
        """What this thread's last call that failed had to say."""
        return str(self.last_error().decode("utf-8", "replace"))


_library: Library | None = None
_loading = threading.Lock()


def library() -> Library:
    """Loads it at the first use: what LIBPGWAKE names, else libpgwake.so.1."""
    global _library
    if _library is not None:
        return _library
    with _loading:
        if _library is None:
            path = os.environ.get("LIBPGWAKE") or "libpgwake.so.1"
            try:
                _library = Library(path)
            except OSError as e:
                raise LibraryMissing(
                    f"libpgwake cannot be loaded: {e}. Install the package libpgwake1 (apt install libpgwake1), "
                    "or name the library in the variable LIBPGWAKE"
                ) from None
            except AttributeError as e:
                raise LibraryMissing(
                    f"{path} is too old: {e}. Upgrade the package libpgwake1"
                ) from None
        return _library


def error_of(result: int, why: str, channel: str = "") -> Error:
    """The exception for a result that is not OK."""
    if result == NACK:
        return Refused(channel, why)
    if channel:
        why = f"{channel}: {why}"
    kind = {TIMEOUT: TimeoutError, CLOSED: Closed, INVALID: Invalid, FORKED: Forked}.get(result, Error)
    return kind(why)

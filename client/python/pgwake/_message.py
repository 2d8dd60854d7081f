"""Messages of the Channels layer specification as text: JSON in ASCII, which every database's encoding has."""

from __future__ import annotations

import base64
import json
from typing import Any

# An object with this one key stands for bytes, or for an object that looks like such a one.
_MARK = "pgwake"


def _pack(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {_MARK: base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dict):
        packed = {key: _pack(item) for key, item in value.items()}
        return {_MARK: packed} if _MARK in packed else packed
    if isinstance(value, (list, tuple)):
        return [_pack(item) for item in value]
    return value


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        marked = value.get(_MARK)
        if isinstance(marked, str):
            return base64.b64decode(marked, validate=True)
        inside = value if marked is None else marked
        return {key: _unpack(item) for key, item in inside.items()}
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    return value


def to_text(channel: str, message: dict[str, Any]) -> str:
    return json.dumps([channel, _pack(message)], separators=(",", ":"))


def from_text(text: str) -> tuple[str, dict[str, Any]]:
    """Raises ValueError for what to_text() has not made."""
    try:
        channel, packed = json.loads(text)
        message = _unpack(packed)
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(channel, str) or not isinstance(message, dict):
        raise ValueError("not a message of this layer")
    return channel, message

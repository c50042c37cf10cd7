"""Who calls: the key of a request and the one caller it belongs to (a2a.md#endpoints).

Checked before the body is read. Exactly one entry of one workspace must match; none and several are the same 401.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

import structlog
import trio

from volcanic.protocol.errors import A2AError, ErrorKind, rest_error
from volcanic.storage.callers import Ambiguous, Match, Principal

CHALLENGE: Final = [
    (b"www-authenticate", b'Bearer realm="volcanic", ApiKey realm="volcanic", header="X-API-Key"'),
]
UNAUTHENTICATED: Final = rest_error(A2AError(ErrorKind.UNAUTHENTICATED))[1]
"""The body of every 401, on every binding."""
WARNING_SECONDS: Final = 1.0
"""At most one warning about keys in this time: guessing must not fill the log."""

_BEARER: Final = b"bearer "

_log = structlog.get_logger("volcanic.server")


class Callers(Protocol):
    """The callers of every workspace, as their files say now (`volcanic.storage.callers.CallerBook`)."""

    def match(self, key: str | bytes) -> Match:
        """Return whose key this is."""


def key_of(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the key a request carries, empty for none: `X-API-Key`, else `Authorization: Bearer`."""
    key = headers.get(b"x-api-key")
    if key:
        return key
    value = headers.get(b"authorization", b"")
    return value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else b""


class Gate:
    """Lets a request in as its caller, or not at all."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._unknown = _Warning()
        self._ambiguous = _Warning()

    def admit(self, headers: Mapping[bytes, bytes]) -> Principal | None:
        """Return the caller of a request, or None: it is to be answered 401."""
        key = key_of(headers)
        if not key:
            return None
        match = self._callers.match(key)
        if isinstance(match, Principal):
            return match
        if isinstance(match, Ambiguous):
            owners = ", ".join(match.owners)
            self._ambiguous.give(f"an API key matches {len(match.owners)} callers (owners: {owners})")
        else:
            self._unknown.give("an API key matches 0 callers")
        return None


class _Warning:
    """One kind of warning, at most one line in `WARNING_SECONDS`; the next line says how many were kept back."""

    def __init__(self) -> None:
        self._given = -math.inf
        self._kept_back = 0

    def give(self, text: str) -> None:
        """Log it, or keep it back."""
        now = trio.current_time()
        if now - self._given < WARNING_SECONDS:
            self._kept_back += 1
            return
        _log.warning(text, kept_back=self._kept_back)
        self._given, self._kept_back = now, 0

"""Reading a request's body: bounded in bytes while it arrives, and in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from volcanic.protocol.errors import A2AError, ErrorKind

Receive = Callable[[], Awaitable[dict[str, Any]]]


class ClientGoneError(Exception):
    """The client left before its request was complete: there is nobody to answer."""


async def read_body(receive: Receive, content_length: bytes | None, limit: int, seconds: float) -> bytes:
    """Return the whole body, at most `limit` bytes and within `seconds` of now.

    Raises:
        A2AError: BODY_TOO_LARGE as soon as the limit is known to be passed (by the declared length, before a byte is
            read), BODY_TIMEOUT when the time is up.
        ClientGoneError: the client disconnected.
    """
    if content_length is not None and content_length.isdigit() and int(content_length) > limit:
        raise A2AError(ErrorKind.BODY_TOO_LARGE)
    with trio.move_on_after(seconds):
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            body: bytes = message["body"]
            _check(len(body), limit)
            return body
        return await _collect(receive, message, limit)
    raise A2AError(ErrorKind.BODY_TIMEOUT)


async def _collect(receive: Receive, message: dict[str, Any], limit: int) -> bytes:
    body = bytearray()
    while message["type"] == "http.request":
        body += message["body"]
        _check(len(body), limit)
        if not message.get("more_body"):
            return bytes(body)
        message = await receive()
    raise ClientGoneError


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise A2AError(ErrorKind.BODY_TOO_LARGE)

"""The JSON-RPC 2.0 envelope (spec §9).

The id is kept byte for byte, so that a number stays the number it was. A request without id is answered like one with
`null`: on HTTP there is always a reply. Batches are refused. Nothing here raises anything but `A2AError`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Raw

from volcanic.protocol.errors import A2AError, ErrorKind

ID_BYTES: Final = 1024
"""The longest id: it comes back in every event of a stream."""

_NULL: Final = Raw(b"null")
_ID_STARTS: Final = frozenset(b'"-0123456789n')


class Request(msgspec.Struct, kw_only=True, gc=False):
    """A call: its id and parameters as the bytes they were."""

    jsonrpc: Literal["2.0"]
    id: Raw = _NULL
    method: str
    params: Raw = Raw(b"{}")


class _Loose(msgspec.Struct, gc=False):
    jsonrpc: Raw = Raw(b"")
    id: Raw = _NULL
    method: Raw = Raw(b"")


_REQUEST: Final = msgspec.json.Decoder(Request)
_LOOSE: Final = msgspec.json.Decoder(_Loose)
_RAW: Final = msgspec.json.Decoder(Raw)


def decode(body: bytes) -> Request:
    """Read one call.

    Raises:
        A2AError: PARSE when the body is not JSON in UTF-8, INVALID_REQUEST when it is no call; `id` is set when it
            could be read.
    """
    require_utf8(body)
    try:
        request = _REQUEST.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise _refusal(body) from None
    if not _is_id(request.id):
        raise A2AError(ErrorKind.INVALID_REQUEST, "id must be a string, a number or null")
    return request


def success(id: Raw, result: bytes) -> bytes:  # noqa: A002 - the wire's name
    """Return the reply that carries `result`, which is JSON already."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"result":', result, b"}"))


def require_utf8(body: bytes) -> None:
    """Refuse a body that is not UTF-8 anywhere, also inside values that are passed on unread.

    Raises:
        A2AError: PARSE.
    """
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            raise A2AError(ErrorKind.PARSE) from None


def _is_id(value: Raw) -> bool:
    text = bytes(value)
    return text[0] in _ID_STARTS and len(text) <= ID_BYTES


def _refusal(body: bytes) -> A2AError:
    try:
        text = bytes(_RAW.decode(body))
    except (msgspec.DecodeError, RecursionError):
        return A2AError(ErrorKind.PARSE)
    if text.startswith(b"["):
        return A2AError(ErrorKind.INVALID_REQUEST, "batches are not supported")
    if not text.startswith(b"{"):
        return A2AError(ErrorKind.INVALID_REQUEST, "the request must be an object")
    loose = _LOOSE.decode(text)
    known = loose.id if _is_id(loose.id) else None
    if bytes(loose.jsonrpc) != b'"2.0"':
        return A2AError(ErrorKind.INVALID_REQUEST, 'jsonrpc must be "2.0"', id=known)
    return A2AError(ErrorKind.INVALID_REQUEST, "method must be a string", id=known)

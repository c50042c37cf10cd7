"""One HTTP request as the handlers see it, and the ways to answer it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from volcanic.protocol import versions
from volcanic.protocol.errors import A2AError
from volcanic.server.body import Receive, read_body
from volcanic.server.settings import ServerSettings

JSON: Final = b"application/json"
A2A_JSON: Final = b"application/a2a+json"
EVENT_STREAM: Final = b"text/event-stream"

Headers = list[tuple[bytes, bytes]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::[0-9]{1,5})?")
_QUERY_FIELDS: Final = 64


class HttpRequest:
    """A request whose head has arrived. `headers` has lower-case names; of a repeated header the last one counts."""

    __slots__ = ("_receive", "_send", "headers", "method", "path", "query", "scope", "settings", "started")

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send, settings: ServerSettings) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.settings = settings
        self.started = False
        """Whether a response has begun."""
        self._receive = receive
        self._send = send

    def header(self, name: bytes) -> str | None:
        """Return a header as text."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def media_type(self) -> bytes:
        """Return the Content-Type without parameters, in lower case; empty when there is none."""
        value = self.headers.get(b"content-type", b"")
        return value if value == JSON else value.partition(b";")[0].strip().lower()

    def check_version(self) -> None:
        """Refuse an A2A version that is not served (header, else query parameter).

        Raises:
            A2AError: VERSION_NOT_SUPPORTED.
        """
        header = self.header(b"a2a-version")
        if header == "1.0" or (header is None and not self.query):
            return
        versions.check(header, None if header else self._query_version())

    def _query_version(self) -> str | None:
        try:
            pairs = parse_qsl(self.query.decode("latin-1"), max_num_fields=_QUERY_FIELDS)
        except ValueError:
            return None
        return next((value for name, value in pairs if name.lower() == "a2a-version"), None)

    def base_url(self) -> str:
        """Return the service's own URL: the configured one, else as this request reached it."""
        if self.settings.public_url:
            return self.settings.public_url
        host = self.header(b"host") or ""
        if _HOST.fullmatch(host) is None:
            server = self.scope.get("server") or ("localhost", 80)
            host = f"[{server[0]}]:{server[1]}" if ":" in server[0] else f"{server[0]}:{server[1]}"
        return f"{self.scope['scheme']}://{host}"

    async def body(self) -> bytes:
        """Read the whole body.

        Raises:
            A2AError: BODY_TOO_LARGE or BODY_TIMEOUT.
            ClientGoneError: the client disconnected.
        """
        settings = self.settings
        return await read_body(
            self._receive, self.headers.get(b"content-length"), settings.body_bytes, settings.body_seconds
        )

    async def reply(self, status: int, content_type: bytes, body: bytes, extra: Headers | None = None) -> None:
        """Send a complete response."""
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        if extra:
            headers += extra
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def not_modified(self, extra: Headers) -> None:
        """Answer a conditional request whose copy is still good."""
        self.started = True
        await self._send({"type": "http.response.start", "status": 304, "headers": extra})
        await self._send({"type": "http.response.body"})

    async def start_events(self) -> None:
        """Begin a stream of server-sent events; the head goes out with the first piece."""
        headers = [(b"content-type", EVENT_STREAM), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        self.started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def send_piece(self, piece: bytes) -> None:
        """Send a piece of a stream; returns when the connection has room again."""
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end_events(self) -> None:
        """End a stream at its natural end. A stream that is left without this shows as cut off."""
        await self._send({"type": "http.response.body"})


def retry_after(error: A2AError) -> Headers:
    """Return the Retry-After header that goes with an error, if any."""
    if error.retry_after is None:
        return []
    return [(b"retry-after", b"%d" % max(1, round(error.retry_after)))]

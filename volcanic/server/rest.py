"""The HTTP+JSON binding: `/a2a/v1/...` (spec §11)."""

from __future__ import annotations

from typing import Final

from volcanic.protocol import rest
from volcanic.protocol.errors import A2AError, ErrorKind, rest_error
from volcanic.protocol.methods import METHODS
from volcanic.server.body import ClientGoneError
from volcanic.server.cards import Cards
from volcanic.server.http import A2A_JSON, JSON, Headers, HttpRequest, retry_after
from volcanic.server.methods import Methods
from volcanic.server.streams import Streams
from volcanic.storage.callers import Principal

PREFIX: Final = "/a2a/v1"
TYPES: Final = frozenset({JSON, A2A_JSON, b""})


class Rest:
    """Answers REST requests of known callers."""

    def __init__(self, methods: Methods, streams: Streams, cards: Cards) -> None:
        self._methods = methods
        self._streams = streams
        self._cards = cards

    async def serve(self, request: HttpRequest, caller: Principal) -> None:
        """Answer one request; what it does wrong is told as a `google.rpc.Status`."""
        try:
            await self._serve(request, caller)
        except A2AError as error:
            await refuse(request, error)
        except ClientGoneError:
            return

    async def _serve(self, request: HttpRequest, caller: Principal) -> None:
        match = rest.route(request.method, request.path.removeprefix(PREFIX))
        if isinstance(match, rest.RouteMiss):
            allow = [(b"allow", match.allow.encode("ascii"))] if match.allow else []
            await refuse(request, A2AError(match.kind), allow)
            return
        if match.method == rest.PUBLIC_CARD:
            await self._cards.serve_public(request)
            return
        if request.media_type() not in TYPES:
            raise A2AError(ErrorKind.UNSUPPORTED_MEDIA_TYPE)
        request.check_version()
        self._methods.check_supported(match.method)
        params = rest.decode(match, request.query, await request.body())
        if METHODS[match.method].streaming:
            opening = self._methods.stream(caller, match.method, params, request.header(b"last-event-id"))
            await self._streams.pump(request, opening, b"", b"")
            return
        result = await self._methods.answer(caller, match.method, params, request.base_url())
        await request.reply(200, _answer_type(request), bytes(result))


async def refuse(request: HttpRequest, error: A2AError, extra: Headers | None = None) -> None:
    """Answer with an error."""
    status, body = rest_error(error)
    await request.reply(status, JSON, body, (extra or []) + retry_after(error))


def _answer_type(request: HttpRequest) -> bytes:
    """Return the type of a result: the one the request was sent in, else the one it accepts, else A2A's own."""
    sent = request.media_type()
    if sent:
        return sent
    accepted = request.headers.get(b"accept", b"")
    return JSON if JSON in accepted and A2A_JSON not in accepted else A2A_JSON

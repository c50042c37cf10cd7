"""The public interface as a raw ASGI application: which path is served by whom, and who must show a key first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from actors.owners_port import Owners
from volcanic.protocol.errors import A2AError, ErrorKind, rest_error
from volcanic.server import health, rest
from volcanic.server.auth import CHALLENGE, UNAUTHENTICATED, Callers, Gate
from volcanic.server.body import Receive
from volcanic.server.cards import Cards, CardSource
from volcanic.server.http import JSON, HttpRequest, Send
from volcanic.server.jsonrpc import JsonRpc
from volcanic.server.methods import Methods
from volcanic.server.rest import Rest
from volcanic.server.settings import ServerSettings
from volcanic.server.streams import Streams
from volcanic.storage.callers import Principal

RPC_PATHS = frozenset({"/a2a", "/a2a/"})
PUSH_PATH = "/a2a/push/"
PUBLIC_CARD_PATH = "/.well-known/agent-card.json"
_NOT_FOUND = rest_error(A2AError(ErrorKind.NOT_FOUND))[1]

_log = structlog.get_logger("volcanic.server")


class App:
    """The ASGI application of an edge. It holds nothing that outlives a request but caches."""

    def __init__(self, owners: Owners, callers: Callers, cards: CardSource, settings: ServerSettings) -> None:
        self._owners = owners
        self._settings = settings
        self._gate = Gate(callers)
        self._cards = Cards(cards, settings)
        self._streams = Streams(settings.comment_seconds)
        methods = Methods(owners, self._cards, settings)
        self._rpc = JsonRpc(methods, self._streams)
        self._rest = Rest(methods, self._streams, self._cards)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] != "http":
            raise RuntimeError(f"cannot serve {scope['type']}")
        request = HttpRequest(scope, receive, send, self._settings)
        try:
            await self._dispatch(request)
        except Exception:  # noqa: BLE001 - the edge of a request: logged, answered without detail
            _log.exception("request failed", path=request.path)
            if not request.started:  # one that has begun ends cut off
                await self._fail(request)

    def drain(self) -> None:
        """End what would not end by itself: this process is stopping."""
        self._streams.drain()

    async def _dispatch(self, request: HttpRequest) -> None:
        path = request.path
        if path in RPC_PATHS:
            caller = await self._admit(request)
            if caller is not None:
                await self._rpc.serve(request, caller)
        elif path.startswith(PUSH_PATH):
            await request.reply(404, JSON, _NOT_FOUND)
        elif path == rest.PREFIX or path.startswith(rest.PREFIX + "/"):
            caller = await self._admit(request)
            if caller is not None:
                await self._rest.serve(request, caller)
        elif path == PUBLIC_CARD_PATH:
            await self._cards.serve_public(request)
        elif path == "/healthz":
            await health.serve_live(request)
        elif path == "/readyz":
            await health.serve_ready(request, self._owners)
        else:
            await request.reply(404, JSON, _NOT_FOUND)

    async def _admit(self, request: HttpRequest) -> Principal | None:
        caller = self._gate.admit(request.headers)
        if caller is None:
            await request.reply(401, JSON, UNAUTHENTICATED, CHALLENGE)
        return caller

    async def _fail(self, request: HttpRequest) -> None:
        if request.path in RPC_PATHS:
            await self._rpc.fail(request)
        else:
            await rest.refuse(request, A2AError(ErrorKind.INTERNAL))


def build_app(owners: Owners, callers: Callers, cards: CardSource, settings: ServerSettings) -> App:
    """Return the public interface over these owners, callers and cards."""
    return App(owners, callers, cards, settings)

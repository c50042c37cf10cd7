"""The JSON-RPC binding over HTTP: `POST /a2a` (spec §9)."""

from __future__ import annotations

from typing import Final

import structlog
from msgspec import Raw

from volcanic.protocol import jsonrpc
from volcanic.protocol.errors import A2AError, ErrorKind, jsonrpc_error
from volcanic.protocol.methods import METHODS, Method
from volcanic.server.body import ClientGoneError
from volcanic.server.http import JSON, HttpRequest, retry_after
from volcanic.server.methods import Methods
from volcanic.server.streams import Streams
from volcanic.storage.callers import Principal

TYPES: Final = frozenset({JSON, b"application/a2a+json", b"", b"application/x-www-form-urlencoded"})
"""Content types that are read as JSON; the last is what `curl -d` says when it is told nothing."""

_log = structlog.get_logger("volcanic.server")


class JsonRpc:
    """Answers JSON-RPC requests of known callers."""

    def __init__(self, methods: Methods, streams: Streams) -> None:
        self._methods = methods
        self._streams = streams

    async def serve(self, request: HttpRequest, caller: Principal) -> None:
        """Answer one request; what it does wrong is told in an error envelope."""
        id: Raw | None = None  # noqa: A001 - the wire's name
        try:
            self._check_head(request)
            call = jsonrpc.decode(await request.body())
            id = call.id  # noqa: A001 - the wire's name
            method = _method(call.method)
            self._methods.check_supported(method.name)
            params = method.decode(call.params)
            if method.streaming:
                opening = self._methods.stream(caller, method.name, params, request.header(b"last-event-id"))
                prefix = b'{"jsonrpc":"2.0","id":' + bytes(id) + b',"result":'
                await self._streams.pump(request, opening, prefix, b"}")
                return
            result = await self._methods.answer(caller, method.name, params, request.base_url())
        except A2AError as error:
            await self._refuse(request, error, id)
        except ClientGoneError:
            return
        else:
            await request.reply(200, JSON, jsonrpc.success(id, result))

    async def _refuse(self, request: HttpRequest, error: A2AError, id: Raw | None) -> None:  # noqa: A002
        body = jsonrpc_error(error, id if id is not None else error.id)
        extra = retry_after(error)
        if error.kind is ErrorKind.METHOD_NOT_ALLOWED:
            extra.append((b"allow", b"POST"))
        await request.reply(error.row.rpc_http, JSON, body, extra)

    def _check_head(self, request: HttpRequest) -> None:
        if request.method != "POST":
            raise A2AError(ErrorKind.METHOD_NOT_ALLOWED)
        if request.media_type() not in TYPES:
            raise A2AError(ErrorKind.CONTENT_TYPE_NOT_SUPPORTED)
        request.check_version()

    async def fail(self, request: HttpRequest) -> None:
        """Answer a request whose handling failed unexpectedly."""
        await self._refuse(request, A2AError(ErrorKind.INTERNAL), None)


def _method(name: str) -> Method:
    method = METHODS.get(name)
    if method is None:
        raise A2AError(ErrorKind.METHOD_NOT_FOUND)
    return method

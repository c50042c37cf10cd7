"""`/healthz` (this process is up) and `/readyz` (every slot serves); no key, no detail."""

from __future__ import annotations

from actors.owners_port import Owners
from volcanic.server.http import JSON, HttpRequest

_NO_STORE = [(b"cache-control", b"no-store")]


async def serve_live(request: HttpRequest) -> None:
    """Answer 200: a process that can answer is up."""
    await request.reply(200, JSON, b'{"status":"up"}', _NO_STORE)


async def serve_ready(request: HttpRequest, owners: Owners) -> None:
    """Answer 200 while every slot serves, else 503."""
    if owners.ready():
        await request.reply(200, JSON, b'{"status":"ready"}', _NO_STORE)
    else:
        await request.reply(503, JSON, b'{"status":"starting"}', _NO_STORE)

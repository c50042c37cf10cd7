"""Serving the agent card: public and cacheable (spec §8.6), extended for a caller (a2a.md#files, `card.json`)."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate, parsedate_to_datetime
from typing import Final, NamedTuple, Protocol

import volcanic
from volcanic.protocol import cards
from volcanic.protocol.cards import AgentSkill, Facts
from volcanic.protocol.errors import A2AError, ErrorKind, rest_error
from volcanic.protocol.types import encode
from volcanic.server.http import JSON, HttpRequest
from volcanic.server.settings import ServerSettings

KEPT: Final = 64
"""Public cards kept, one for each base URL that requests came by."""


class OwnCard(NamedTuple):
    """What a workspace says of itself; empty members fall back to the service's."""

    name: str = ""
    description: str = ""
    skills: Sequence[AgentSkill] = ()


class CardSource(Protocol):
    """The cards of the workspaces, as their files say now."""

    def own_card(self, workspace: str) -> OwnCard:
        """Return what the workspace says of itself."""


class Cards:
    """Builds cards and answers requests for the public one."""

    def __init__(self, source: CardSource, settings: ServerSettings) -> None:
        self._source = source
        self._settings = settings
        self._public: dict[str, tuple[bytes, str]] = {}
        self._modified = formatdate(settings.booted, usegmt=True)

    def extended(self, workspace: str, base_url: str) -> bytes:
        """Return the JSON of a workspace's card, built fresh from its files."""
        own = self._source.own_card(workspace)
        card = cards.extended_card(self._facts(base_url), name=own.name, description=own.description, skills=own.skills)
        return encode(card)

    async def serve_public(self, request: HttpRequest) -> None:
        """Answer a GET or HEAD of the public card; 304 when the client's copy is still good."""
        if request.method not in ("GET", "HEAD"):
            status, body = rest_error(A2AError(ErrorKind.METHOD_NOT_ALLOWED))
            await request.reply(status, JSON, body, [(b"allow", b"GET, HEAD")])
            return
        body, tag = self._public_card(request.base_url())
        headers = [
            (b"cache-control", b"public, max-age=%d" % self._settings.card_max_age),
            (b"etag", tag.encode("ascii")),
            (b"last-modified", self._modified.encode("ascii")),
        ]
        if not self._settings.public_url:
            headers.append((b"vary", b"host"))
        if self._unchanged(request, tag):
            await request.not_modified(headers)
        else:
            await request.reply(200, JSON, body, headers)

    def _unchanged(self, request: HttpRequest, tag: str) -> bool:
        named = request.header(b"if-none-match")
        if named is not None:
            return cards.etag_matches(named, tag)
        since = request.header(b"if-modified-since")
        if since is None:
            return False
        try:
            return parsedate_to_datetime(since).timestamp() >= int(self._settings.booted)
        except (ValueError, OverflowError):
            return False

    def _public_card(self, base_url: str) -> tuple[bytes, str]:
        known = self._public.get(base_url)
        if known is None:
            body = encode(cards.public_card(self._facts(base_url)))
            known = body, cards.etag(body)
            if len(self._public) >= KEPT:
                self._public.clear()
            self._public[base_url] = known
        return known

    def _facts(self, base_url: str) -> Facts:
        settings = self._settings
        return Facts(
            name=settings.card_name,
            description=settings.card_description,
            version=volcanic.__version__,
            base_url=base_url,
            input_modes=settings.input_modes,
        )

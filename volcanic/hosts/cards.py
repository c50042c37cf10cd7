"""The cards of the workspaces as their files say now (`server.cards.CardSource`)."""

from __future__ import annotations

from collections.abc import Sequence

from volcanic.server.cards import OwnCard
from volcanic.storage.card import load_card
from volcanic.storage.layout import WorkspaceLayout


class WorkspaceCards:
    """What each workspace says of itself in `card.json` and `PERSONA.md`."""

    def __init__(self, layouts: Sequence[WorkspaceLayout]) -> None:
        self._layouts = {layout.root: layout for layout in layouts}

    def own_card(self, workspace: str) -> OwnCard:
        """Read a workspace's card."""
        card = load_card(self._layouts[workspace])
        return OwnCard(card.name, card.description, card.skills)

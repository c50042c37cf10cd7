"""`card.json` and `PERSONA.md`: what a workspace says of itself on its extended card (seed: a2a.md#files).

Both are read when asked for. A malformed `card.json` counts as none, with a warning that names it.
"""

from __future__ import annotations

from typing import final

import attrs
import msgspec
import structlog

from volcanic.protocol.cards import AgentSkill
from volcanic.storage.layout import WorkspaceLayout
from volcanic.storage.safe_read import Reason, Unreadable, read_file

_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 2000

_log = structlog.get_logger(__name__)


@final
@attrs.frozen
class WorkspaceCard:
    """What the workspace says of itself; what is empty falls back to the settings, no skills to the generic one.

    `warnings` says what was wrong with `card.json`, if anything.
    """

    name: str = ""
    description: str = ""
    skills: tuple[AgentSkill, ...] = ()
    warnings: tuple[str, ...] = ()


class _Skill(msgspec.Struct, rename="camel", gc=False):
    id: str
    name: str
    description: str = ""
    tags: list[str] = []
    examples: list[str] = []
    input_modes: list[str] = []
    output_modes: list[str] = []


class _Card(msgspec.Struct, gc=False):
    name: str | None = None
    description: str | None = None
    skills: list[_Skill] | None = None


_decode = msgspec.json.Decoder(_Card).decode


def read_card(layout: WorkspaceLayout) -> WorkspaceCard:
    """Return the workspace's card as its files say now; blocks for at most two small reads.

    The description is the card's, else the first line of `PERSONA.md` that is not blank, heading marks dropped.
    """
    data = read_file(layout.card)
    card = _parse(data) if isinstance(data, bytes) else None
    warnings: tuple[str, ...] = ()
    if isinstance(data, bytes) and card is None:
        warnings = (f"{layout.card} is no valid card: the defaults are shown",)
    elif isinstance(data, Unreadable) and data.reason is not Reason.MISSING:
        warnings = (f"{layout.card} {data}: the defaults are shown",)
    card = card or _Card()
    description = (card.description or "").strip() or _first_line(read_file(layout.persona))
    return WorkspaceCard((card.name or "").strip(), description, tuple(map(_skill, card.skills or ())), warnings)


def load_card(layout: WorkspaceLayout) -> WorkspaceCard:
    """Return `read_card`, having logged its warnings."""
    card = read_card(layout)
    for warning in card.warnings:
        _log.warning("card_file", problem=warning)
    return card


def _parse(data: bytes) -> _Card | None:
    try:
        data.decode()
        card = _decode(data.removeprefix(_BOM))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return card if all(skill.id.strip() and skill.name.strip() for skill in card.skills or ()) else None


def _skill(skill: _Skill) -> AgentSkill:
    return AgentSkill(
        id=skill.id,
        name=skill.name,
        description=skill.description or skill.name,
        tags=skill.tags,
        examples=skill.examples,
        input_modes=skill.input_modes,
        output_modes=skill.output_modes,
    )


def _first_line(data: bytes | Unreadable) -> str:
    text = "" if isinstance(data, Unreadable) else data.decode("utf-8-sig", "replace")
    lines = (line.strip().lstrip("#").strip() for line in text.splitlines())
    return next((line for line in lines if line), "")[:_LONGEST_LINE]

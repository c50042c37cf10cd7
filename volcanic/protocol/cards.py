"""The agent card, public and extended (proto `AgentCard`; spec §4.4, §8; a2a.md#files `card.json`).

Pure functions: the same facts make the same bytes, and the ETag is made of those bytes. The structs hold the proto's
members and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from volcanic.protocol.types import Wire

PROTOCOL_VERSION: Final = "1.0"
API_KEY_HEADER: Final = "X-API-Key"
RPC_PATH: Final = "/a2a"
REST_PATH: Final = "/a2a/v1"
OUTPUT_MODES: Final = ("text/plain", "application/octet-stream")


class _Whole(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Base of structs whose members are all shown, also where they are empty."""


class AgentInterface(Wire, kw_only=True):
    """Where and how the agent is reached."""

    url: str
    protocol_binding: str
    tenant: str | UnsetType = UNSET
    protocol_version: str


class AgentProvider(Wire, kw_only=True):
    """Who offers the agent."""

    url: str
    organization: str


class AgentExtension(Wire, kw_only=True):
    """An extension of the protocol."""

    uri: str
    description: str = ""
    required: bool = False
    params: Raw | UnsetType = UNSET


class AgentCapabilities(_Whole, kw_only=True):
    """The optional features; each is said, also where it is absent."""

    streaming: bool
    push_notifications: bool
    extensions: list[AgentExtension] | UnsetType = UNSET
    extended_agent_card: bool


class StringList(_Whole, kw_only=True):
    """A list of strings (scopes)."""

    list: list[str] = msgspec.field(default_factory=list)


class SecurityRequirement(_Whole, kw_only=True):
    """Schemes that must be satisfied together."""

    schemes: dict[str, StringList]


class APIKeySecurityScheme(Wire, kw_only=True):
    """A key in a header, a query parameter or a cookie."""

    description: str = ""
    location: str
    name: str


class HTTPAuthSecurityScheme(Wire, kw_only=True):
    """HTTP authentication."""

    description: str = ""
    scheme: str
    bearer_format: str = ""


class SecurityScheme(Wire, kw_only=True):
    """One way to authenticate (of the proto's five, the two that are served)."""

    api_key_security_scheme: APIKeySecurityScheme | UnsetType = UNSET
    http_auth_security_scheme: HTTPAuthSecurityScheme | UnsetType = UNSET


class AgentSkill(Wire, kw_only=True):
    """Something the agent is good at."""

    id: str
    name: str
    description: str
    tags: list[str]
    examples: list[str] = msgspec.field(default_factory=list)
    input_modes: list[str] = msgspec.field(default_factory=list)
    output_modes: list[str] = msgspec.field(default_factory=list)


class AgentCard(Wire, kw_only=True):
    """What an agent says of itself."""

    name: str
    description: str
    supported_interfaces: list[AgentInterface]
    provider: AgentProvider | UnsetType = UNSET
    version: str
    documentation_url: str | UnsetType = UNSET
    capabilities: AgentCapabilities
    security_schemes: dict[str, SecurityScheme] = msgspec.field(default_factory=dict)
    security_requirements: list[SecurityRequirement] = msgspec.field(default_factory=list)
    default_input_modes: list[str]
    default_output_modes: list[str]
    skills: list[AgentSkill]
    icon_url: str | UnsetType = UNSET


CHAT: Final = AgentSkill(
    id="chat",
    name="Chat",
    description="Works on tasks and answers questions in conversation.",
    tags=["chat"],
)
"""The one skill of a card that names none."""


class Facts(NamedTuple):
    """What a card is made of; `base_url` is the service's own URL, with or without a trailing slash."""

    name: str
    description: str
    version: str
    base_url: str
    input_modes: Sequence[str]
    output_modes: Sequence[str] = OUTPUT_MODES
    push_notifications: bool = False


def public_card(facts: Facts) -> AgentCard:
    """Return the card that anyone may read: the service's own facts and the one generic skill.

    Raises:
        ValueError: A member that every card must have would be empty.
    """
    return _card(facts, [CHAT])


def extended_card(
    facts: Facts,
    *,
    name: str = "",
    description: str = "",
    skills: Sequence[AgentSkill] = (),
) -> AgentCard:
    """Return the card of one workspace: what it says of itself, else the service's facts and the generic skill.

    Raises:
        ValueError: A member that every card must have would be empty.
    """
    own = facts._replace(name=name or facts.name, description=description or facts.description)
    return _card(own, list(skills) or [CHAT])


def etag(body: bytes) -> str:
    """Return the strong entity tag of a card's bytes, quotes included."""
    return f'"{blake2b(body, digest_size=12).hexdigest()}"'


def etag_matches(if_none_match: str, tag: str) -> bool:
    """Tell whether an `If-None-Match` header names the tag (weak comparison, RFC 9110 §13.1.2)."""
    named = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return tag in named or named == ["*"]


def _card(facts: Facts, skills: list[AgentSkill]) -> AgentCard:
    if not all(facts[: Facts._fields.index("push_notifications")]):
        raise ValueError("a card needs a name, a description, a version, a URL and modes")
    base = facts.base_url.rstrip("/")
    return AgentCard(
        name=facts.name,
        description=facts.description,
        supported_interfaces=[_interface(base + RPC_PATH, "JSONRPC"), _interface(base + REST_PATH, "HTTP+JSON")],
        version=facts.version,
        capabilities=AgentCapabilities(
            streaming=True,
            push_notifications=facts.push_notifications,
            extended_agent_card=True,
        ),
        security_schemes={
            "apiKey": SecurityScheme(
                api_key_security_scheme=APIKeySecurityScheme(location="header", name=API_KEY_HEADER),
            ),
            "bearer": SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer")),
        },
        security_requirements=[
            SecurityRequirement(schemes={"apiKey": StringList()}),
            SecurityRequirement(schemes={"bearer": StringList()}),
        ],
        default_input_modes=list(facts.input_modes),
        default_output_modes=list(facts.output_modes),
        skills=skills,
    )


def _interface(url: str, binding: str) -> AgentInterface:
    return AgentInterface(url=url, protocol_binding=binding, protocol_version=PROTOCOL_VERSION)

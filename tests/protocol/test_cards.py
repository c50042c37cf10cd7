from __future__ import annotations

import json

import pytest
from a2a.types import a2a_pb2
from google.protobuf import json_format

from volcanic.protocol import cards
from volcanic.protocol.types import encode

FACTS = cards.Facts("Volcanic assistant", "Helps.", "0.1.0", "https://a.example/base/", ["text/*", "image/png"])
SKILL = cards.AgentSkill(
    id="scheduling",
    name="Scheduling",
    description="Meetings.",
    tags=["calendar"],
    examples=["book"],
    input_modes=["text/plain"],
    output_modes=["text/plain"],
)


def shown(card):
    return json.loads(encode(card))


@pytest.mark.parametrize("card", [cards.public_card(FACTS), cards.extended_card(FACTS, skills=[SKILL])])
def test_a_card_holds_what_it_must_and_only_what_the_protocol_knows(card):
    parsed = json_format.Parse(encode(card), a2a_pb2.AgentCard())
    for member in ("name", "description", "version", "capabilities"):
        assert parsed.HasField(member) if member == "capabilities" else getattr(parsed, member)
    assert [(each.url, each.protocol_binding, each.protocol_version) for each in parsed.supported_interfaces] == [
        ("https://a.example/base/a2a", "JSONRPC", "1.0"),
        ("https://a.example/base/a2a/v1", "HTTP+JSON", "1.0"),
    ]
    assert list(parsed.default_input_modes) == ["text/*", "image/png"]
    assert parsed.default_output_modes
    assert all(skill.id and skill.name and skill.description and skill.tags for skill in parsed.skills)
    assert parsed.skills


def test_capabilities_are_said_also_where_they_are_absent():
    assert shown(cards.public_card(FACTS))["capabilities"] == {
        "streaming": True,
        "pushNotifications": False,
        "extendedAgentCard": True,
    }
    assert (
        shown(cards.public_card(FACTS._replace(push_notifications=True)))["capabilities"]["pushNotifications"] is True
    )


def test_either_way_to_send_the_key_satisfies():
    card = shown(cards.public_card(FACTS))
    assert card["securitySchemes"] == {
        "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}},
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
    }
    assert card["securityRequirements"] == [
        {"schemes": {"apiKey": {"list": []}}},
        {"schemes": {"bearer": {"list": []}}},
    ]


def test_the_public_card_has_the_generic_skill():
    assert [skill["id"] for skill in shown(cards.public_card(FACTS))["skills"]] == ["chat"]


def test_the_extended_card_says_what_the_workspace_says_else_the_services_facts():
    own = shown(cards.extended_card(FACTS, name="Eugene's assistant", description="Schedules.", skills=[SKILL]))
    assert (own["name"], own["description"]) == ("Eugene's assistant", "Schedules.")
    assert own["skills"] == [
        {
            "id": "scheduling",
            "name": "Scheduling",
            "description": "Meetings.",
            "tags": ["calendar"],
            "examples": ["book"],
            "inputModes": ["text/plain"],
            "outputModes": ["text/plain"],
        },
    ]
    assert cards.extended_card(FACTS) == cards.public_card(FACTS)


@pytest.mark.parametrize("member", ["name", "description", "version", "base_url", "input_modes", "output_modes"])
def test_a_card_without_a_required_member_is_refused(member):
    with pytest.raises(ValueError, match="a card needs"):
        cards.public_card(cards.Facts(**(FACTS._asdict() | {member: ""})))


def test_the_tag_is_made_of_the_bytes():
    tag = cards.etag(b"card")
    assert tag == cards.etag(b"card") != cards.etag(b"Card")
    assert tag.startswith('"')
    assert tag.endswith('"')
    assert tag.isascii()


@pytest.mark.parametrize(("header", "matches"), [('"a"', True), ('W/"a"', True), ('"b", "a"', True), ("*", True), ('"b"', False), ("a", False), ("", False), ('"b", *', False)])  # fmt: skip
def test_a_conditional_request_names_the_tag(header, matches):
    assert cards.etag_matches(header, '"a"') is matches

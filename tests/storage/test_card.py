"""card.json and PERSONA.md as the extended card shows them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from volcanic.storage.card import WorkspaceCard, load_card, read_card

SEEDS = """{ "name": "Eugene's assistant", "description": "Schedules meetings and answers for Eugene.",
  "skills": [ { "id": "scheduling", "name": "Scheduling", "description": "...", "tags": ["calendar"] } ] }"""


def test_the_seeds_example(layout):
    Path(layout.card).write_text(SEEDS)
    card = read_card(layout)
    assert (card.name, card.description) == ("Eugene's assistant", "Schedules meetings and answers for Eugene.")
    (skill,) = card.skills
    assert (skill.id, skill.name, skill.description, skill.tags) == ("scheduling", "Scheduling", "...", ["calendar"])
    assert card.warnings == ()


def test_without_files_everything_falls_back(layout):
    assert read_card(layout) == WorkspaceCard()


def test_the_description_falls_back_to_the_persona(layout):
    Path(layout.persona).write_bytes(b"\xef\xbb\xbf\n  \n# Ada, the assistant \nMore.\n")
    assert read_card(layout).description == "Ada, the assistant"
    Path(layout.card).write_text('{"description": " ", "skills": null, "other": 1}')
    assert read_card(layout) == WorkspaceCard(description="Ada, the assistant")
    Path(layout.card).write_text('{"description": "Own"}')
    assert read_card(layout).description == "Own"


@pytest.mark.parametrize("text", [b"", b"#\n##\n", b"\xff\xfe", b"\0"])
def test_a_persona_that_says_nothing_is_no_description_or_harmless(layout, text):
    Path(layout.persona).write_bytes(text)
    assert isinstance(read_card(layout).description, str)


def test_a_persona_that_is_no_file_is_none(layout):
    os.mkfifo(layout.persona)
    assert read_card(layout).description == ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"name": 5}',
        b'{"skills": {}}',
        b'{"skills": [{"id": "x"}]}',
        b'{"skills": [{"id": "", "name": "n"}]}',
        b'{"skills": [{"id": "x", "name": "n", "tags": "t"}]}',
        b'{"name": "\xff"}',
        b'{"other": "\xff"}',
        b"[" * 100_000,
    ],
)
def test_a_malformed_card_is_the_fallback_and_a_warning_that_names_the_file(layout, data):
    Path(layout.persona).write_text("Ada")
    Path(layout.card).write_bytes(data)
    with capture_logs() as logs:
        card = load_card(layout)
    assert (card.name, card.description, card.skills) == ("", "Ada", ())
    assert len(card.warnings) == 1
    assert layout.card in card.warnings[0]
    assert [entry["problem"] for entry in logs] == list(card.warnings)


def test_a_card_that_is_no_file_is_the_fallback(layout):
    os.mkfifo(layout.card)
    assert len(read_card(layout).warnings) == 1
    assert read_card(layout).name == ""


def test_a_skill_needs_only_its_id_and_name(layout):
    Path(layout.card).write_text('{"skills": [{"id": "x", "name": "Naming"}]}')
    (skill,) = read_card(layout).skills
    assert (skill.description, skill.tags) == ("Naming", [])

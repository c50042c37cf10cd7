from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volcanic.protocol import ids

ODD = st.text(max_size=45) | st.text("ab-_.0/\\\n\0 Aé٣", max_size=45)
GRAMMARS = {
    ids.is_caller_name: "[a-z0-9-]{1,40}",
    ids.is_context_id: "[A-Za-z0-9_-]{1,100}",
    ids.is_task_id: "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}


@pytest.mark.parametrize("accepts", GRAMMARS)
@settings(max_examples=2000)
@given(text=ODD)
@example(text="a\n")
@example(text="")
@example(text="..")
@example(text="a" * 41)
@example(text="x" * 101)
@example(text="٣")
@example(text="ª")
def test_the_accepted_set_is_the_grammar(accepts, text):
    assert accepts(text) == bool(re.compile(rf"(?:{GRAMMARS[accepts]})\Z", re.ASCII).match(text))


@pytest.mark.parametrize("accepts", GRAMMARS)
@given(data=st.data())
def test_what_the_grammar_makes_is_accepted_and_no_trailing_line_break(accepts, data):
    text = data.draw(st.from_regex(GRAMMARS[accepts], fullmatch=True))
    assert accepts(text)
    assert not accepts(text + "\n")


NAMES = st.from_regex(r"[a-z0-9-]{1,6}", fullmatch=True)
CONTEXTS = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True)


@given(NAMES, CONTEXTS, NAMES, CONTEXTS)
@example("a", "b_c", "a-b", "c")
@example("a", "_", "a-", "-")
def test_no_two_contexts_share_a_scope(caller, context, other_caller, other_context):
    same = (caller, context) == (other_caller, other_context)
    assert (ids.scope("folder", caller, context) == ids.scope("folder", other_caller, other_context)) is same


def test_a_scope_has_the_documented_form():
    assert ids.scope("telegram-17", "travel-bot", "c_1") == "telegram-17-a2a-travel-bot_c_1"


@given(st.integers(0, 255), st.binary(min_size=16, max_size=16))
def test_a_task_id_carries_its_shard(shard, random16):
    minted = ids.mint_task_id(shard, random16)
    assert ids.is_task_id(minted)
    assert ids.shard_of_task_id(minted) == shard
    assert uuid.UUID(minted).version == 4
    assert uuid.UUID(minted).variant == uuid.RFC_4122


@given(st.binary(min_size=16, max_size=16))
def test_a_context_id_is_a_random_uuid(random16):
    assert ids.mint_context_id(random16) == str(uuid.UUID(bytes=random16, version=4))
    assert ids.is_context_id(ids.mint_context_id(random16))


@pytest.mark.parametrize("shard", [-1, 256])
def test_there_are_256_shards(shard):
    with pytest.raises(ValueError, match="no such shard"):
        ids.mint_task_id(shard, bytes(16))


@pytest.mark.parametrize("size", [0, 15, 17])
def test_an_id_needs_its_sixteen_bytes(size):
    with pytest.raises(ValueError, match="16 bytes"):
        ids.mint_context_id(bytes(size))


@pytest.mark.parametrize("text", ["", "x", "00", "../../etc", "00000000-0000-0000-0000-00000000000G", "é" * 36])
def test_a_foreign_id_carries_no_shard(text):
    assert ids.shard_of_task_id(text) is None


def test_a_shard_is_the_same_in_every_process_and_depends_on_every_part():
    assert ids.shard_of("demo", "c-1") == 138
    seen = {ids.shard_of("demo", f"c-{number}") for number in range(5000)}
    assert seen == set(range(256))
    assert len({ids.shard_of(f"caller-{number}", "c") for number in range(100)}) > 50


def test_a_folder_name_that_is_no_unicode_has_a_shard():
    assert 0 <= ids.shard_of("demo", "c\udcff") < ids.SHARDS

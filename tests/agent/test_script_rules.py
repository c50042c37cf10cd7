"""Which rule is played for a message."""

from __future__ import annotations

import pytest

from tests.agent.kit import Stage


def says(kind: str, pattern: str, text: str) -> dict[str, object]:
    return {kind: pattern, "steps": [{"text": text}]}


RULES = {
    "rules": [
        says("textRegex", "^tck", "regex one"),
        says("textRegex", "a(?P<rest>.*)z", "regex two {rest}"),
        says("textPrefix", "tck", "text short"),
        says("textPrefix", "tck-file", "text long"),
        says("messageIdPrefix", "tck-artifact-file", "id short"),
        says("messageIdPrefix", "tck-artifact-file-url", "id long"),
    ]
}


@pytest.mark.parametrize(
    ("message_id", "text", "answer"),
    [
        ("tck-artifact-file-1", "tck-file", "id short"),
        ("tck-artifact-file-url-1", "tck", "id long"),
        ("tck-artifact", "tck-file", "text long"),
        ("", "tck-fil", "text short"),
        ("m", "x tck", "x tck"),
        ("m", "go abcz", "regex two bc"),
        ("m", "nothing", "nothing"),
    ],
)
async def test_longest_prefix_wins_and_id_comes_before_text_before_regex(
    message_id: str, text: str, answer: str
) -> None:
    assert (await Stage(RULES).say(text, message_id)).text == answer


async def test_the_first_matching_regex_wins_and_sees_all_text_parts() -> None:
    stage = Stage({"rules": [says("textRegex", "two$", "first"), says("textRegex", "two", "second")]})
    assert (await stage.say("one", more_texts=("two",))).text == "first"
    assert (await stage.say("two tone")).text == "second"


async def test_an_unmatched_optional_group_is_empty() -> None:
    stage = Stage({"rules": [says("textRegex", "^go(?P<where> .*)?$", "<{where}>")]})
    assert (await stage.say("go")).text == "<>"


ASK = {
    "rules": [
        {"textPrefix": "book", "turns": "ask"},
        {"textPrefix": "help", "steps": [{"text": "helped"}]},
        {"messageIdPrefix": "tck-input", "turns": "again"},
    ],
    "turns": {
        "ask": [
            [{"end": "input-required", "text": "which day?"}],
            [{"end": "input-required", "text": "which hour?"}],
            [{"text": "booked {text}"}],
        ],
        "again": [[{"end": "input-required", "text": "more"}]],
    },
}


async def test_turns_go_on_with_the_messages_of_their_task() -> None:
    stage = Stage(ASK)
    assert (await stage.say("book", task_id="t1")).text == "which day?"
    assert (await stage.say("monday", task_id="t1")).text == "which hour?"
    assert (await stage.say("book", task_id="t2")).text == "which day?"
    assert (await stage.say("nine", task_id="t1")).text == "booked nine"
    assert (await stage.say("unbound", task_id="t3")).text == "unbound"


async def test_turns_survive_a_restart_between_question_and_answer() -> None:
    stage = Stage(ASK)
    await stage.say("book", task_id="t1")
    stage.open()
    assert (await stage.say("monday", task_id="t1")).text == "which hour?"


async def test_the_last_turn_is_repeated_and_the_first_message_may_match_again() -> None:
    stage = Stage(ASK)
    for _ in range(3):
        assert (await stage.say("anything", message_id="tck-input-1", task_id="t1")).text == "more"


async def test_a_rule_with_steps_beats_the_bound_turns_without_using_one_up() -> None:
    stage = Stage(ASK)
    await stage.say("book", task_id="t1")
    assert (await stage.say("help", task_id="t1")).text == "helped"
    assert (await stage.say("monday", task_id="t1")).text == "which hour?"

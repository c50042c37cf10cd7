"""Each step of the script, seen through a session."""

from __future__ import annotations

import base64
import json

import pytest
import trio

from tests.agent.kit import Stage, answer_tool, shape
from volcanic.agent.events import (
    ArtifactNote,
    DirectMessage,
    MessageEnd,
    Outcome,
    StatusNote,
    TextDelta,
    ThinkingDelta,
)
from volcanic.agent.messages import AssistantMessage, StopReason, ThinkingBlock
from volcanic.extension import VerdictState


async def test_consecutive_texts_are_one_message_and_a_tool_ends_it() -> None:
    steps = [{"text": "a"}, {"text": "b"}, {"tool": "look"}, {"text": "c"}, {"status": "busy"}, {"text": "d"}]
    stage = Stage(steps, [answer_tool("look", "seen")])
    outcome = await stage.say("x")
    assert stage.told() == ["ab", "cd"]
    assert outcome == Outcome(VerdictState.COMPLETED, "cd", "cd")
    assert shape(stage.transcript.messages()) == [
        "user x",
        "assistant ab|look|toolUse",
        "look seen",
        "assistant cd||stop",
    ]


async def test_the_response_is_the_last_message_with_text() -> None:
    stage = Stage([{"text": "on it"}, {"tool": "look"}], [answer_tool("look", "seen")])
    assert (await stage.say("x")).response == "on it"


async def test_thinking_is_recorded_and_is_no_text() -> None:
    stage = Stage([{"thinking": "hmm"}, {"text": "so"}])
    outcome = await stage.say("x")
    assert outcome.text == "so"
    assert stage.of(ThinkingDelta) == [ThinkingDelta("hmm")]
    answer = stage.transcript.messages()[1]
    assert isinstance(answer, AssistantMessage)
    assert answer.content[0] == ThinkingBlock("hmm")


async def test_delay_is_on_trios_clock(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage([{"delay": 3600}, {"text": "late"}])
    start = trio.current_time()
    assert (await stage.say("x")).text == "late"
    assert trio.current_time() - start == 3600


async def test_tokens_per_second_pace_the_text(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage({"tokensPerSecond": 2, "chunk": 4})
    start = trio.current_time()
    await stage.say("abcdefghijklmnop")
    assert trio.current_time() - start == pytest.approx(2.0)
    assert len(stage.of(TextDelta)) == 4


async def test_status_is_a_note_and_not_the_answer() -> None:
    stage = Stage([{"status": "thinking about {text}"}, {"text": "done"}])
    outcome = await stage.say("x")
    assert stage.of(StatusNote) == [StatusNote("thinking about x")]
    assert outcome.text == "done"


async def test_artifacts_keep_their_values_and_flags() -> None:
    stage = Stage(
        [
            {"artifact": {"name": "d", "parts": [{"data": {"key": "value", "count": 42}}]}},
            {
                "artifact": {
                    "artifactId": "f",
                    "parts": [{"rawText": "grüße {text}", "filename": "o.txt", "mediaType": "text/plain"}],
                    "append": True,
                    "lastChunk": True,
                }
            },
            {"artifact": {"parts": [{"url": "https://e.example/x"}, {"raw": "aGk="}]}},
        ]
    )
    outcome = await stage.say("you")
    notes = [event for event in stage.of(ArtifactNote) if isinstance(event, ArtifactNote)]
    assert [(note.append, note.last_chunk) for note in notes] == [(False, False), (True, True), (False, False)]
    assert bytes(notes[0].artifact) == b'{"name":"d","parts":[{"data":{"key":"value","count":42}}],"artifactId":"d"}'
    raw = json.loads(bytes(notes[1].artifact))
    assert raw["parts"][0]["filename"] == "o.txt"
    assert base64.b64decode(raw["parts"][0]["raw"]).decode() == "grüße you"
    assert json.loads(bytes(notes[2].artifact)) == {"parts": [{"url": "https://e.example/x"}, {"raw": "aGk="}]}
    assert outcome == Outcome(VerdictState.COMPLETED)


async def test_a_tool_gets_the_filled_arguments_and_its_text_comes_back() -> None:
    got: list[object] = []

    async def act(call: object, run: object) -> str:
        got.append(call.arguments)  # type: ignore[attr-defined]
        return "out"

    from tests.agent.kit import AnyTool

    script = {
        "rules": [
            {
                "textRegex": "^run (?P<cmd>.+)$",
                "steps": [
                    {"tool": "bash", "arguments": {"command": "{cmd}", "more": [1, {"deep": "<{cmd}>"}]}},
                    {"text": "[{result}] {n} {text} {unknown} {}"},
                ],
            }
        ]
    }
    stage = Stage(script, [AnyTool("bash", act)])
    assert (await stage.say("run ls {n}")).text == "[out] 1 run ls {n} {unknown} {}"
    assert got == [{"command": "ls {n}", "more": [1, {"deep": "<ls {n}>"}]}]
    assert (await stage.say("walk")).text == "walk"


async def test_a_result_before_any_call_is_empty() -> None:
    assert (await Stage([{"text": "<{result}>"}]).say("x")).text == "<>"


async def test_several_calls_in_one_turn_give_one_result_text_in_order(autojump_clock: object) -> None:
    steps = [{"tools": [{"tool": "slow"}, {"tool": "fast"}]}, {"text": "{result}"}]
    stage = Stage(steps, [answer_tool("slow", "S", 2), answer_tool("fast", "F", 1)])
    start = trio.current_time()
    assert (await stage.say("x")).text == "S\nF"
    assert trio.current_time() - start == 2


async def test_a_direct_message_is_told_apart_from_text() -> None:
    stage = Stage([{"delay": 0}, {"message": "Direct message response"}])
    outcome = await stage.say("x")
    assert stage.of(DirectMessage) == [DirectMessage("Direct message response")]
    assert stage.of(TextDelta) == []
    assert outcome == Outcome(VerdictState.COMPLETED)
    assert shape(stage.transcript.messages())[1] == "assistant Direct message response||stop"


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("failed", VerdictState.FAILED),
        ("rejected", VerdictState.REJECTED),
        ("input-required", VerdictState.INPUT_REQUIRED),
        ("auth-required", VerdictState.AUTH_REQUIRED),
        ("canceled", VerdictState.CANCELED),
    ],
)
async def test_end_ends_the_run_in_its_state(name: str, state: VerdictState) -> None:
    stage = Stage([{"text": "well"}, {"end": name, "text": "because of {text}"}])
    outcome = await stage.say("you")
    assert outcome == Outcome(state, "because of you", "well")
    assert stage.told() == ["well"]
    assert "because of you" in shape(stage.transcript.messages())[1]


async def test_end_completed_keeps_its_text_apart_from_the_response() -> None:
    stage = Stage([{"text": "the answer"}, {"end": "completed", "text": "Hello"}])
    assert await stage.say("x") == Outcome(VerdictState.COMPLETED, "Hello", "the answer")
    stage = Stage([{"text": "the answer"}, {"end": "completed"}])
    assert await stage.say("x") == Outcome(VerdictState.COMPLETED, "the answer", "the answer")


async def test_no_steps_complete_with_nothing() -> None:
    assert await Stage([]).say("x") == Outcome(VerdictState.COMPLETED)


async def test_a_length_stop_completes_and_says_so() -> None:
    stage = Stage([{"text": "cut o"}, {"stop": "length"}])
    assert await stage.say("x") == Outcome(VerdictState.COMPLETED, "cut o", "cut o", length_limited=True)
    assert stage.of(MessageEnd) == [MessageEnd("cut o", StopReason.LENGTH)]


async def test_raise_leaves_the_run_as_an_exception_and_the_session_usable() -> None:
    stage = Stage(
        {"rules": [{"textPrefix": "boom", "steps": [{"text": "I was "}, {"raise": "bad {text}"}]}]},
    )
    with pytest.raises(RuntimeError, match="bad boom"):
        await stage.say("boom")
    assert shape(stage.transcript.messages()) == ["user boom", "assistant I was ||error"]
    assert not stage.session.running
    assert (await stage.say("next")).text == "next"
    assert shape(stage.model.asked[-1]) == ["user boom", "user next"]


async def test_the_runs_number_survives_a_resume() -> None:
    stage = Stage([{"text": "{n}"}])
    assert (await stage.say("a")).text == "1"
    stage.session.follow_up("more")
    assert (await stage.say("b")).text == "2"
    stage.open()
    assert (await stage.say("c")).text == "3"


async def test_steering_takes_over_from_the_steps_left(autojump_clock: object) -> None:
    script = {
        "rules": [
            {"textPrefix": "work", "steps": [{"tool": "slow"}, {"text": "worked"}]},
            {"textPrefix": "stop", "steps": [{"text": "stopped"}]},
        ]
    }
    stage = Stage(script, [answer_tool("slow", "S", 2)])
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _steer() -> None:
            await trio.sleep(1)
            stage.session.steer("stop it")

        outcome = await stage.say("work")
    assert outcome.text == "stopped"
    assert shape(stage.model.asked[-1]) == ["user work", "assistant |slow|toolUse", "slow S", "user stop it"]

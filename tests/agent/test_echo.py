from __future__ import annotations

import pytest
import trio

from tests.agent.kit import MemoryTranscript, Stage, shape
from volcanic.agent.bus import SessionBus
from volcanic.agent.events import MessageEnd, MessageStart, Outcome, TextDelta
from volcanic.agent.messages import AssistantMessage, StopReason, TextBlock, UserMessage
from volcanic.agent.models.faux import FauxModel
from volcanic.agent.session import AgentSession, Prompt, SessionBusyError
from volcanic.extension import ImageBlock, VerdictState


async def test_echo_streams_back_the_text_and_completes() -> None:
    stage = Stage()
    outcome = await stage.say("hi")
    assert outcome == Outcome(VerdictState.COMPLETED, "hi", "hi")
    assert stage.events == [MessageStart(), TextDelta("hi"), MessageEnd("hi", StopReason.STOP)]


async def test_long_text_comes_in_chunks_of_the_scripts_size() -> None:
    stage = Stage({"chunk": 5})
    await stage.say("abcdefghijkl")
    assert [event.text for event in stage.of(TextDelta) if isinstance(event, TextDelta)] == ["abcde", "fghij", "kl"]
    assert stage.told() == ["abcdefghijkl"]


async def test_a_message_without_text_is_answered_with_none() -> None:
    stage = Stage()
    outcome = await stage.say("")
    assert outcome == Outcome(VerdictState.COMPLETED)
    assert stage.of(TextDelta) == []


async def test_several_text_parts_are_echoed_line_by_line() -> None:
    stage = Stage()
    assert (await stage.say("one", more_texts=("two", "three"))).text == "one\ntwo\nthree"


async def test_the_model_sees_the_framing_and_the_echo_does_not() -> None:
    stage = Stage()
    outcome = await stage.say("hi", before="[outsider]", after="[end]")
    assert outcome.text == "hi"
    (message,) = stage.model.asked[0]
    assert isinstance(message, UserMessage)
    assert [block.text for block in message.content if isinstance(block, TextBlock)] == ["[outsider]", "hi", "[end]"]


async def test_the_first_rule_text_is_the_senders_even_behind_framing() -> None:
    stage = Stage({"rules": [{"textPrefix": "ping", "steps": [{"text": "pong"}]}]})
    assert (await stage.say("ping!", before="[framing]")).text == "pong"
    assert (await stage.say("x ping", before="ping")).text == "x ping"


async def test_the_transcript_has_the_prompt_before_the_model_is_asked() -> None:
    stage = Stage()
    seen: list[int] = []

    async def look(event: object) -> None:
        if isinstance(event, MessageStart):
            seen.append(len(stage.transcript.lines))

    stage.on_event = look
    await stage.say("hi", message_id="m-7", task_id="t-7")
    assert seen == [1]
    user, answer = stage.transcript.messages()
    assert isinstance(user, UserMessage)
    assert (user.message_id, user.task_id, user.queued) == ("m-7", "t-7", False)
    assert isinstance(answer, AssistantMessage)
    assert (answer.provider, answer.model, answer.stop_reason) == ("faux", "faux-1", StopReason.STOP)
    assert user.timestamp > 1_600_000_000_000
    assert stage.transcript.lasts == [False, True]


async def test_a_resumed_session_knows_what_was_said() -> None:
    stage = Stage()
    await stage.say("my word is plum")
    stage.open()
    await stage.say("what is my word?")
    assert shape(stage.model.asked[-1]) == [
        "user my word is plum",
        "assistant my word is plum||stop",
        "user what is my word?",
    ]


async def test_sessions_of_one_model_share_nothing() -> None:
    model = FauxModel()
    first, second = MemoryTranscript(), MemoryTranscript()

    async def emit(event: object) -> None:
        await trio.lowlevel.checkpoint()

    async def talk(transcript: MemoryTranscript, text: str) -> None:
        outcome = await AgentSession(model, [], "", transcript, SessionBus()).run(Prompt(text), emit)
        assert outcome.text == text

    async with trio.open_nursery() as nursery:
        nursery.start_soon(talk, first, "a" * 500)
        nursery.start_soon(talk, second, "b" * 500)
    assert b"b" * 500 not in b"".join(first.lines)


async def test_a_second_run_meanwhile_is_refused_and_adds_nothing(autojump_clock: object) -> None:
    stage = Stage([{"delay": 1}, {"text": "done"}])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.say, "first")
        await trio.sleep(0.5)
        running = [stage.session.running]
        with pytest.raises(SessionBusyError):
            await stage.say("second")
    assert [*running, stage.session.running] == [True, False]
    assert shape(stage.transcript.messages()) == ["user first", "assistant done||stop"]
    assert (await stage.say("third")).text == "done"


async def test_images_reach_the_model() -> None:
    stage = Stage()
    await stage.say("look", images=(ImageBlock("aGk=", "image/png"),))
    assert b'{"type":"image","data":"aGk=","mimeType":"image/png"}' in stage.transcript.lines[0]


async def test_usage_is_estimated_and_the_repeated_prefix_counts_as_cached() -> None:
    stage = Stage()
    await stage.say("x" * 400)
    await stage.say("y" * 40)
    first, second = [message for message in stage.transcript.messages() if isinstance(message, AssistantMessage)]
    assert first.usage is not None
    assert second.usage is not None
    assert (first.usage.input, first.usage.cache_read, first.usage.output) == (101, 0, 100)
    assert (second.usage.input, second.usage.cache_read, second.usage.output) == (10, 201, 10)
    assert second.usage.total_tokens == 221


async def test_two_tools_of_one_name_are_refused() -> None:
    from tests.agent.kit import answer_tool

    with pytest.raises(ValueError, match="same name"):
        Stage(tools=[answer_tool("a", ""), answer_tool("a", "")])


async def test_an_endless_text_lets_others_run() -> None:
    stage = Stage({"chunk": 1})
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        await stage.say("z" * 10_000)
        nursery.cancel_scope.cancel()
    assert ticks > 100

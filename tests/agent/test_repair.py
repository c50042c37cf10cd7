"""Whatever a transcript holds, what a model gets of it is fit to be asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.kit import MemoryTranscript, Stage, assert_fit, shape
from volcanic.agent import messages as codec
from volcanic.agent.messages import (
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from volcanic.agent.repair import INTERRUPTED, repair


def user(text: str) -> UserMessage:
    return UserMessage(content=[TextBlock(text)], timestamp=1)


def assistant(text: str, *calls: str, reason: StopReason = StopReason.STOP) -> AssistantMessage:
    return AssistantMessage(
        content=[TextBlock(text), *[ToolCallBlock(call, f"tool-{call}") for call in calls]],
        provider="p",
        model="m",
        stop_reason=reason,
        timestamp=1,
    )


def result(call: str, text: str = "") -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call, tool_name=f"tool-{call}", content=[TextBlock(text)], timestamp=1)


def test_missing_results_are_made_up_and_late_ones_put_in_order() -> None:
    repaired = repair([user("x"), assistant("a", "1", "2", "3"), result("3", "C"), result("1", "A"), user("y")])
    assert shape(repaired)[2:5] == ["tool-1 A", f"tool-2 {INTERRUPTED} !", "tool-3 C"]


def test_broken_responses_leave_with_their_results() -> None:
    for reason in (StopReason.ERROR, StopReason.ABORTED):
        repaired = repair([user("x"), assistant("a", "1", reason=reason), result("1"), assistant("b"), user("y")])
        assert shape(repaired) == ["user x", "assistant b||stop", "user y"]


def test_second_and_homeless_results_leave() -> None:
    messages: list[Message] = [
        result("0"),
        user("x"),
        assistant("a", "1"),
        result("1", "A"),
        result("1", "B"),
        result("9"),
        user("y"),
    ]
    assert shape(repair(messages))[2:] == ["tool-1 A", "user y"]


def test_a_call_id_used_twice_gets_each_its_own_result() -> None:
    messages: list[Message] = [
        user("x"),
        assistant("a", "1"),
        result("1", "A"),
        assistant("b", "1"),
        result("1", "B"),
        user("y"),
    ]
    assert [m.text() for m in repair(messages) if isinstance(m, ToolResultMessage)] == ["A", "B"]


IDS = st.sampled_from(["1", "2", "3"])
MESSAGES: st.SearchStrategy[list[Message]] = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=2)),
        st.builds(result, IDS, st.text(max_size=2)),
        st.builds(
            lambda calls, reason: assistant("t", *calls, reason=reason),
            st.lists(IDS, max_size=3, unique=True),
            st.sampled_from(list(StopReason)),
        ),
    ),
    max_size=12,
)


@given(MESSAGES)
def test_any_sequence_becomes_fit_and_stays_as_it_is(messages: list[Message]) -> None:
    repaired = repair(messages)
    assert_fit([*repaired, user("end")])
    assert repair(repaired) == repaired
    kept = [m for m in messages if isinstance(m, UserMessage)]
    assert [m for m in repaired if isinstance(m, UserMessage)] == kept


@given(MESSAGES)
async def test_a_session_resumes_on_any_sequence(messages: list[Message]) -> None:
    stage = Stage(transcript=MemoryTranscript([codec.encode(message) for message in messages]))
    assert (await stage.say("on")).text == "on"
    assert_fit(stage.model.asked[0])


@given(st.lists(st.binary(max_size=20) | st.just(b'{"role":"user","content":[],"timestamp":1}'), max_size=5))
async def test_unreadable_messages_are_left_out(lines: list[bytes]) -> None:
    stage = Stage(transcript=MemoryTranscript(list(lines)))
    assert (await stage.say("on")).text == "on"


@given(MESSAGES)
def test_messages_survive_their_encoding(messages: list[Message]) -> None:
    assert [codec.decode(codec.encode(message)) for message in messages] == messages


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"role":"user","content":[{"type":"hologram"}],"timestamp":1}',
        b'{"role":"narrator","content":[]}',
        b"\xff",
        b"null",
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        codec.decode(line)


@pytest.mark.parametrize("role", ["user", "toolResult"])
def test_content_may_be_a_plain_text_and_cost_an_object(role: str) -> None:
    more = ',"toolCallId":"1","toolName":"t"' if role == "toolResult" else ""
    message = codec.decode(f'{{"role":"{role}","content":"hi","timestamp":1{more}}}'.encode())
    assert message.content == [TextBlock("hi")]
    usage = '"usage":{"input":1,"totalTokens":1,"cost":{"input":0.5,"total":0.5}}'
    line = (
        '{"role":"assistant","content":[],"provider":"p","model":"m","stopReason":"stop","timestamp":1,' + usage + "}"
    )
    answer = codec.decode(line.encode())
    assert isinstance(answer, AssistantMessage)
    assert answer.usage is not None
    assert answer.usage.total_tokens == 1


def test_members_of_later_versions_are_ignored() -> None:
    line = b'{"role":"user","content":[{"type":"text","text":"x","new":1}],"timestamp":1,"newer":[]}'
    message = codec.decode(line)
    assert isinstance(message, UserMessage)
    assert message.sender_text() == "x"

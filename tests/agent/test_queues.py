"""Steering, follow-ups, and one run at a time."""

from __future__ import annotations

import pytest
import trio

from tests.agent.kit import Stage, answer_tool, shape
from volcanic.agent.events import TextDelta
from volcanic.agent.messages import UserMessage
from volcanic.agent.queues import QueueFullError, QueueMode
from volcanic.agent.session import QUEUE_CAPACITY


def slow_stage(mode: QueueMode) -> Stage:
    script = {"rules": [{"textPrefix": "work", "steps": [{"tool": "slow"}, {"text": "worked"}]}]}
    return Stage(script, [answer_tool("slow", "S", 2)], queue_mode=mode)


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        (
            QueueMode.ONE,
            [
                "user s1",
                "assistant s1||stop",
                "user s2",
                "assistant s2||stop",
                "user f1",
                "assistant f1||stop",
                "user f2",
            ],
        ),
        (QueueMode.ALL, ["user s1", "user s2", "assistant s2||stop", "user f1", "user f2"]),
    ],
)
async def test_steering_goes_in_after_the_turns_tools_and_follow_ups_at_the_end(
    mode: QueueMode, asked: list[str], autojump_clock: object
) -> None:
    stage = slow_stage(mode)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _queue() -> None:
            await trio.sleep(1)
            for text in ("f1", "f2"):
                stage.session.follow_up(text)
            for text in ("s1", "s2"):
                stage.session.steer(text)

        outcome = await stage.say("work")
    assert outcome.text == "f2"
    assert shape(stage.model.asked[-1])[3:] == asked
    assert all(m.queued for m in stage.model.asked[-1][3:] if isinstance(m, UserMessage))
    assert stage.transcript.lasts[-1] is True
    assert stage.transcript.lasts.count(True) == 1


async def test_steering_of_an_idle_session_goes_in_at_the_start_of_the_next_run() -> None:
    stage = Stage()
    stage.session.steer("also")
    assert (await stage.say("first")).text == "also"
    assert shape(stage.model.asked[0]) == ["user first", "user also"]


async def test_what_comes_while_the_assistant_speaks_keeps_the_run_from_being_over() -> None:
    for queue in ("steer", "follow_up"):
        stage = Stage({"rules": [{"textPrefix": "go", "steps": [{"text": "speaking"}]}]})

        async def put(event: object, stage: Stage = stage, queue: str = queue) -> None:
            if event == TextDelta("speaking"):
                getattr(stage.session, queue)("more")

        stage.on_event = put
        assert (await stage.say("go")).text == "more"
        assert stage.transcript.lasts == [False, False, False, True]


async def test_an_explicit_end_as_completed_lets_follow_ups_go_in() -> None:
    stage = Stage({"rules": [{"textPrefix": "go", "steps": [{"text": "done"}, {"end": "completed"}]}]})
    stage.session.follow_up("more")
    assert (await stage.say("go")).text == "more"


async def test_a_full_queue_refuses() -> None:
    stage = Stage()
    for put in (stage.session.steer, stage.session.follow_up):
        for _ in range(QUEUE_CAPACITY):
            put("x")
        with pytest.raises(QueueFullError):
            put("one too many")
    assert len(stage.session.drop_queued()) == 2 * QUEUE_CAPACITY
    assert stage.session.drop_queued() == []


async def test_abort_keeps_what_is_queued(autojump_clock: object) -> None:
    stage = slow_stage(QueueMode.ONE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.say, "work")
        await trio.sleep(1)
        stage.session.follow_up("later")
        await stage.session.abort()
    assert stage.session.drop_queued() == ["later"]


async def test_abort_of_an_idle_session_does_nothing() -> None:
    stage = Stage()
    await stage.session.abort()
    assert (await stage.say("x")).text == "x"

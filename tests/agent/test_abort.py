"""A run interrupted at any point: what was done is kept, and the session goes on, here and from its transcript."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from structlog.testing import capture_logs

from tests.agent.kit import AnyTool, MemoryTranscript, Stage, answer_tool, assert_fit, shape
from volcanic.agent.events import MessageEnd, Outcome
from volcanic.agent.messages import AssistantMessage, StopReason, UserMessage
from volcanic.extension import ExecutionMode, RunPort, ToolCall, VerdictState

STEPS = [
    {"text": "first words"},
    {"tools": [{"tool": "quick"}, {"tool": "slow"}, {"tool": "ghost"}]},
    {"status": "half way"},
    {"error": "overloaded", "retryable": True},
    {"text": "second"},
    {"tool": "alone"},
    {"thinking": "hm"},
    {"delay": 1},
    {"text": "the end"},
]
SCRIPT = {"rules": [{"textPrefix": "go", "steps": STEPS}], "chunk": 4}


@attrs.define
class Points:
    """Counts the points at which a run waits for something outside, and acts at one of them."""

    act: Callable[[], Awaitable[None]]
    at: int
    seen: int = 0

    async def __call__(self) -> None:
        await trio.lowlevel.checkpoint()
        self.seen += 1
        if self.seen == self.at:
            await self.act()


async def idle() -> None:
    pass


def staged(points: Points, *, lossy: bool) -> Stage:
    async def quick(call: ToolCall, run: RunPort) -> str:
        await points()
        await run.status("tool at work")
        return "Q"

    async def slow(call: ToolCall, run: RunPort) -> str:
        await trio.sleep(1)
        await points()
        return "S"

    async def alone(call: ToolCall, run: RunPort) -> str:
        await points()
        return "A"

    stage = Stage(
        SCRIPT,
        [AnyTool("quick", quick), AnyTool("slow", slow), AnyTool("alone", alone)],
        MemoryTranscript(point=points, lossy=lossy),
    )

    async def on_event(event: object) -> None:
        await points()

    stage.on_event = on_event
    return stage


async def warmed(points: Points, *, lossy: bool) -> Stage:
    """A session that has had a run in good order; points count from here."""
    at, points.at = points.at, 0
    stage = staged(points, lossy=lossy)
    await stage.say("warm")
    points.at, points.seen = at, 0
    return stage


async def count_points(*, lossy: bool) -> int:
    points = Points(idle, 0)
    stage = await warmed(points, lossy=lossy)
    assert (await stage.say("go")).text == "the end"
    return points.seen


async def assert_goes_on(stage: Stage, points: Points) -> None:
    points.at = 0
    assert not stage.session.running
    for again in ("here", "resumed"):
        assert (await stage.say(again)).text == again
        assert_fit(stage.model.asked[-1])
        stage.open()
    texts = [message.sender_text() for message in stage.model.asked[-1] if isinstance(message, UserMessage)]
    assert texts[-2:] == ["here", "resumed"]
    assert texts[:-2] in (["warm"], ["warm", "go"])


@pytest.mark.parametrize("lossy", [False, True])
async def test_cancellation_at_every_point_is_recorded_and_goes_on(lossy: bool, autojump_clock: object) -> None:
    total = await count_points(lossy=lossy)
    assert total > 30
    for at in range(1, total + 1):
        scope = trio.CancelScope()

        async def cancel(scope: trio.CancelScope = scope) -> None:
            scope.cancel()
            await trio.lowlevel.checkpoint()

        points = Points(cancel, at)
        stage = await warmed(points, lossy=lossy)
        with scope:
            await stage.say("go")
            pytest.fail("the run was not cancelled")
        assert scope.cancelled_caught, f"point {at} was not reached"
        await assert_goes_on(stage, points)


@pytest.mark.parametrize("lossy", [False, True])
async def test_abort_at_every_point_ends_canceled_and_goes_on(lossy: bool, autojump_clock: object) -> None:
    total = await count_points(lossy=lossy)
    for at in range(1, total + 1):
        wanted = trio.Event()

        async def ask(wanted: trio.Event = wanted) -> None:
            wanted.set()
            await trio.sleep_forever()

        points = Points(ask, at)
        stage = await warmed(points, lossy=lossy)
        outcomes: list[Outcome] = []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _run(stage: Stage = stage, outcomes: list[Outcome] = outcomes) -> None:
                outcomes.append(await stage.say("go"))

            await wanted.wait()
            await stage.session.abort()
            assert not stage.session.running
        assert outcomes == [Outcome(VerdictState.CANCELED)]
        await assert_goes_on(stage, points)


async def test_an_exception_at_every_point_comes_out_as_itself_and_goes_on(autojump_clock: object) -> None:
    class BrokenError(Exception):
        pass

    async def fail() -> None:
        raise BrokenError

    total = await count_points(lossy=False)
    raised = 0
    for at in range(1, total + 1):
        points = Points(fail, at)
        stage = await warmed(points, lossy=False)
        try:
            # What a tool raises is the model's to read; the run goes on then.
            assert (await stage.say("go")).text == "the end"
        except BrokenError:
            raised += 1
        await assert_goes_on(stage, points)
    assert raised > total - 8


async def test_a_full_disk_at_every_write_ends_the_run_with_its_error(autojump_clock: object) -> None:
    for lossy in (False, True):
        writes = 0

        async def count() -> None:
            nonlocal writes
            writes += 1

        stage = await warmed(Points(idle, 0), lossy=lossy)
        stage.transcript.point = count
        await stage.say("go")
        assert writes > 8
        for at in range(1, writes + 1):

            async def full() -> None:
                raise OSError(28, "No space left on device")

            points = Points(full, at)
            stage = await warmed(Points(idle, 0), lossy=lossy)
            stage.transcript.point = points
            with pytest.raises(OSError, match="No space left"):
                await stage.say("go")
            await assert_goes_on(stage, points)


async def test_what_was_said_until_the_abort_is_on_record(autojump_clock: object) -> None:
    stage = Stage({"rules": [{"textPrefix": "go", "steps": [{"thinking": "h"}, {"text": "so far"}, {"delay": 9}]}]})
    with trio.move_on_after(1):
        await stage.say("go")
    answer = stage.transcript.messages()[-1]
    assert isinstance(answer, AssistantMessage)
    assert (answer.text(), answer.stop_reason) == ("so far", StopReason.ABORTED)
    assert stage.transcript.lasts == [False, True]
    await stage.say("next")
    assert shape(stage.model.asked[-1]) == ["user go", "user next"]


async def test_finished_results_of_a_cancelled_batch_are_kept(autojump_clock: object) -> None:
    script = {"rules": [{"textPrefix": "go", "steps": [{"tools": [{"tool": "b"}, {"tool": "a"}]}]}]}
    stage = Stage(script, [answer_tool("a", "ok-A", 0.1), answer_tool("b", "", 1e6)])
    with trio.move_on_after(2):
        await stage.say("go")
    for _ in range(2):
        await stage.say("and?")
        assert shape(stage.model.asked[-1])[:4] == [
            "user go",
            "assistant |b a|toolUse",
            "b The call was cancelled before it finished. !",
            "a ok-A",
        ]
        stage.open()


async def test_every_unfinished_call_gets_its_result_on_record(autojump_clock: object) -> None:
    script = {"rules": [{"textPrefix": "go", "steps": [{"tools": [{"tool": "a"}, {"tool": "b"}, {"tool": "a"}]}]}]}
    tools = [answer_tool("a", "", 1e6), answer_tool("b", "", 1e6)]
    stage = Stage(script, tools, MemoryTranscript(point=trio.lowlevel.checkpoint, lossy=True))
    with trio.move_on_after(2):
        await stage.say("go")
    text = "The call was cancelled before it finished. !"
    assert shape(stage.transcript.messages())[2:] == [f"a {text}", f"b {text}", f"a {text}"]


async def test_a_sequential_batch_that_is_cancelled_gives_the_rest_a_result(autojump_clock: object) -> None:
    script = {"rules": [{"textPrefix": "go", "steps": [{"tools": [{"tool": "a"}, {"tool": "b"}, {"tool": "a"}]}]}]}
    tools = [answer_tool("a", "A", 1, execution=ExecutionMode.SEQUENTIAL), answer_tool("b", "B", 5)]
    stage = Stage(script, tools)
    with trio.move_on_after(2):
        await stage.say("go")
    lines = [line.split(" ")[0:2] for line in shape(stage.transcript.messages())[2:]]
    assert lines == [["a", "A"], ["b", "The"], ["a", "The"]]


async def test_a_transcript_that_hangs_does_not_hold_up_an_abort_for_ever(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage({"rules": [{"textPrefix": "go", "steps": [{"text": "x"}, {"delay": 9}]}]})

    async def stuck() -> None:
        if len(stage.transcript.lasts) > 1:
            await trio.sleep_forever()

    stage.transcript.point = stuck
    start = trio.current_time()
    with trio.move_on_after(1):
        await stage.say("go")
    assert trio.current_time() - start == 1 + 5


async def test_an_abort_that_comes_too_late_changes_nothing() -> None:
    stage = Stage()
    async with trio.open_nursery() as nursery:

        async def abort_at_the_end(event: object) -> None:
            if isinstance(event, MessageEnd):
                nursery.start_soon(stage.session.abort)

        stage.on_event = abort_at_the_end
        outcome = await stage.say("x")
    assert outcome == Outcome(VerdictState.COMPLETED, "x", "x")


@pytest.mark.parametrize("steps", [[{"text": "x"}, {"delay": 9}], [{"tool": "hang"}]])
async def test_a_disk_that_fails_as_well_does_not_hide_the_abort(
    steps: list[dict[str, object]], autojump_clock: object
) -> None:
    stage = Stage({"rules": [{"textPrefix": "go", "steps": steps}]}, [answer_tool("hang", "", 1e6)])
    outcomes: list[Outcome] = []

    async def full() -> None:
        raise OSError(28, "No space left on device")

    async def say() -> None:
        outcomes.append(await stage.say("go"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say)
        await trio.sleep(1)
        stage.transcript.point = full
        stage.transcript.lossy = True
        with capture_logs() as logs:
            await stage.session.abort()
    assert outcomes == [Outcome(VerdictState.CANCELED)]
    assert len(logs) == 1
    stage.transcript.point = idle
    for again in ("here", "resumed"):
        assert (await stage.say(again)).text == again
        assert_fit(stage.model.asked[-1])
        stage.open()

"""Tool calls: what runs, in which order, and what the model gets back."""

from __future__ import annotations

import pytest
import trio

from tests.agent.kit import AnyTool, Stage, answer_tool, raw, shape
from volcanic.agent.events import ArtifactNote, StatusNote, ToolEnd, ToolStart
from volcanic.agent.messages import ImageContent, ToolResultMessage
from volcanic.agent.tool_batch import ToolHooks
from volcanic.extension import ExecutionMode, ImageBlock, RunPort, ToolCall, ToolResult, Verdict, VerdictState
from volcanic.redact import KEYS


def calls(*names: str) -> dict[str, object]:
    return {"tools": [{"tool": name} for name in names]}


def results(stage: Stage) -> list[str]:
    return [f"{m.tool_name} {m.text()}" for m in stage.model.asked[-1] if isinstance(m, ToolResultMessage)]


async def test_parallel_calls_end_as_they_finish_and_reach_the_model_in_order(autojump_clock: object) -> None:
    stage = Stage(
        [calls("a", "b", "c")], [answer_tool("a", "A", 3), answer_tool("b", "B", 1), answer_tool("c", "C", 2)]
    )
    start = trio.current_time()
    await stage.say("x")
    assert trio.current_time() - start == 3
    assert [event.call.name for event in stage.of(ToolStart) if isinstance(event, ToolStart)] == ["a", "b", "c"]
    assert [event.call.name for event in stage.of(ToolEnd) if isinstance(event, ToolEnd)] == ["b", "c", "a"]
    assert results(stage) == ["a A", "b B", "c C"]
    stored = [m.tool_name for m in stage.transcript.messages() if isinstance(m, ToolResultMessage)]
    assert stored == ["b", "c", "a"]
    stage.open()
    await stage.say("y")
    assert results(stage)[:3] == ["a A", "b B", "c C"]


async def test_one_sequential_tool_makes_the_batch_sequential(autojump_clock: object) -> None:
    tools = [answer_tool("a", "A", 2), answer_tool("b", "B", 1, execution=ExecutionMode.SEQUENTIAL)]
    stage = Stage([calls("a", "b", "a")], tools)
    start = trio.current_time()
    await stage.say("x")
    assert trio.current_time() - start == 5
    assert [event.call.name for event in stage.of(ToolEnd) if isinstance(event, ToolEnd)] == ["a", "b", "a"]


async def test_a_tool_that_raises_and_one_that_is_not_there_are_errors_for_the_model() -> None:
    async def fail(call: ToolCall, run: RunPort) -> str:
        raise OSError("no such file")

    async def wordless(call: ToolCall, run: RunPort) -> str:
        raise KeyError

    stage = Stage(
        [calls("fail", "ghost", "wordless"), {"text": "ok"}], [AnyTool("fail", fail), AnyTool("wordless", wordless)]
    )
    assert (await stage.say("x")).text == "ok"
    assert shape(stage.model.asked[-1])[2:] == [
        "fail no such file !",
        'ghost There is no tool "ghost". !',
        "wordless KeyError !",
    ]


async def test_a_key_in_a_tools_error_never_reaches_the_model() -> None:
    KEYS.register(["k_0123456789abcdef"])

    async def leak(call: ToolCall, run: RunPort) -> str:
        raise OSError("401 for k_0123456789abcdef")

    stage = Stage([calls("leak")], [AnyTool("leak", leak)])
    await stage.say("x")
    assert b"k_0123456789abcdef" not in b"".join(stage.transcript.lines)
    assert results(stage) == ["leak 401 for [redacted]"]


async def test_odd_text_of_a_tool_is_stored() -> None:
    stage = Stage([calls("odd")], [answer_tool("odd", "name\udcff")])
    await stage.say("x")
    assert results(stage) == ["odd name?"]


async def test_images_of_a_tool_reach_the_model() -> None:
    async def look(call: ToolCall, run: RunPort) -> ToolResult:
        return ToolResult("seen", images=(ImageBlock("aGk=", "image/png"),))

    stage = Stage([calls("look")], [AnyTool("look", look)])
    await stage.say("x")
    result = stage.model.asked[-1][-1]
    assert isinstance(result, ToolResultMessage)
    assert result.content[1] == ImageContent("aGk=", "image/png")


async def test_a_tool_can_show_status_and_artifacts_one_at_a_time() -> None:
    async def show(call: ToolCall, run: RunPort) -> str:
        await run.status(f"by {call.id}")
        await run.artifact(raw({"parts": []}), append=True, last_chunk=False)
        return ""

    stage = Stage([calls("show", "show")], [AnyTool("show", show)])
    inside = 0

    async def slow(event: object) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await trio.lowlevel.checkpoint()
        inside -= 1

    stage.on_event = slow
    await stage.say("x")
    assert len(stage.of(StatusNote)) == 2
    assert stage.of(ArtifactNote) == [ArtifactNote(raw({"parts": []}), append=True, last_chunk=False)] * 2


async def test_hooks_can_block_and_change() -> None:
    async def gate(call: ToolCall) -> str | None:
        return "not today" if call.name == "b" else None

    async def broken_gate(call: ToolCall) -> str | None:
        if call.name == "c":
            raise ValueError("bug")
        return None

    async def louder(call: ToolCall, result: ToolResult) -> ToolResult:
        return ToolResult(result.text.upper())

    async def broken(call: ToolCall, result: ToolResult) -> ToolResult:
        raise ValueError("bug")

    ran: list[str] = []

    def tool(name: str) -> AnyTool:
        async def act(call: ToolCall, run: RunPort) -> str:
            ran.append(name)
            return f"{name}."

        return AnyTool(name, act)

    hooks = ToolHooks(before=(gate, broken_gate), after=(broken, louder))
    stage = Stage([calls("a", "b", "c")], [tool("a"), tool("b"), tool("c")], hooks=hooks)
    await stage.say("x")
    assert ran == ["a"]
    assert results(stage) == ["a A.", "b Blocked: not today", "c Blocked: the check before this call failed."]


def ending(name: str, state: VerdictState | None = None, text: str = "") -> AnyTool:
    async def act(call: ToolCall, run: RunPort) -> ToolResult:
        return ToolResult("bye", terminate=True, verdict=Verdict(state, text) if state else None)

    return AnyTool(name, act)


async def test_a_batch_whose_results_all_terminate_ends_the_run_without_another_model_call() -> None:
    stage = Stage([{"text": "so"}, calls("quit", "quit"), {"text": "never"}], [ending("quit")])
    outcome = await stage.say("x")
    assert (outcome.state, outcome.text) == (VerdictState.COMPLETED, "so")
    assert len(stage.model.asked) == 1


async def test_one_result_that_goes_on_keeps_the_run_going() -> None:
    stage = Stage([calls("quit", "look"), {"text": "on"}], [ending("quit"), answer_tool("look", "")])
    assert (await stage.say("x")).text == "on"


async def test_the_first_verdict_in_call_order_counts() -> None:
    tools = [ending("ask", VerdictState.INPUT_REQUIRED, "which?"), ending("no", VerdictState.REJECTED, "no")]
    stage = Stage([calls("ask", "no")], tools)
    outcome = await stage.say("x")
    assert (outcome.state, outcome.text) == (VerdictState.INPUT_REQUIRED, "which?")
    assert stage.transcript.lasts[-1] is True


async def test_a_verdict_beside_another_call_is_kept_until_the_assistant_stops() -> None:
    tools = [ending("ask", VerdictState.INPUT_REQUIRED, "which?"), answer_tool("look", "")]
    stage = Stage([calls("ask", "look"), {"text": "I asked."}], tools)
    stage.session.follow_up("later")
    outcome = await stage.say("x")
    assert (outcome.state, outcome.text, outcome.response) == (VerdictState.INPUT_REQUIRED, "which?", "I asked.")
    assert stage.session.drop_queued() == ["later"]


async def test_a_kept_verdict_outlives_later_calls() -> None:
    tools = [ending("ask", VerdictState.INPUT_REQUIRED, "which?"), answer_tool("look", "")]
    stage = Stage([calls("ask", "look"), calls("look"), {"text": "So?"}], tools)
    assert (await stage.say("x")).state is VerdictState.INPUT_REQUIRED


async def test_a_verdict_that_ends_the_run_leaves_steering_for_the_next() -> None:
    async def ask(call: ToolCall, run: RunPort) -> ToolResult:
        stage.session.steer("wait")
        return ToolResult("bye", terminate=True, verdict=Verdict(VerdictState.INPUT_REQUIRED, "which?"))

    stage = Stage([calls("ask"), {"text": "never"}], [AnyTool("ask", ask)])
    assert (await stage.say("x")).text == "which?"
    assert len(stage.model.asked) == 1
    assert stage.session.drop_queued() == ["wait"]


async def test_calls_of_a_response_cut_off_at_its_length_are_not_run() -> None:
    from volcanic.agent.messages import AssistantMessage, StopReason, ToolCallBlock
    from volcanic.agent.models.port import ModelEmit, ModelRequest

    ran: list[str] = []

    async def act(call: ToolCall, run: RunPort) -> str:
        ran.append(call.id)
        return ""

    class Cut:
        provider = name = "cut"
        context_window = 1

        async def respond(self, request: ModelRequest, _emit: ModelEmit) -> AssistantMessage:
            first = len(request.messages) == 1
            if not first:
                asked.extend(shape(request.messages))
            return AssistantMessage(
                content=[ToolCallBlock("1", "act"), ToolCallBlock("2", "act")] if first else [],
                provider="cut",
                model="cut",
                stop_reason=StopReason.LENGTH if first else StopReason.STOP,
                timestamp=0,
            )

    asked: list[str] = []
    stage = Stage(tools=[AnyTool("act", act)])
    stage.model = Cut()  # type: ignore[assignment]
    stage.open()
    outcome = await stage.say("x")
    assert not ran
    assert [line.endswith("!") and "Not executed" in line for line in asked[2:]] == [True, True]
    assert outcome.length_limited is False


async def test_a_listener_that_fails_in_a_batch_ends_the_run_with_its_own_error(autojump_clock: object) -> None:
    stage = Stage([calls("a", "hang")], [answer_tool("a", "A"), answer_tool("hang", "", 1e6)])

    async def fail(event: object) -> None:
        if isinstance(event, ToolEnd):
            raise OSError("disk full")

    stage.on_event = fail
    with pytest.raises(OSError, match="disk full"):
        await stage.say("x")
    stage.on_event = None
    await stage.say("y")
    assert shape(stage.model.asked[-2])[2:] == [
        "a A",
        "hang The call was cancelled before it finished. !",
        "user y",
    ]

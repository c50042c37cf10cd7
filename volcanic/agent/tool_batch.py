"""Running the tool calls of one model response (agent-core facts, section 1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import attrs
import structlog
import trio
from msgspec import Raw

from volcanic.agent.events import ArtifactNote, Emit, StatusNote, ToolEnd, ToolStart
from volcanic.extension import ExecutionMode, Tool, ToolCall, ToolResult, Verdict
from volcanic.redact import KEYS

CANCELLED = "The call was cancelled before it finished."
CUT_OFF = "Not executed: the response was cut off by the length limit, so the call may be incomplete."

BeforeTool = Callable[[ToolCall], Awaitable[str | None]]
"""Called before a call runs; returns why it may not run, or None. One that raises blocks the call."""

AfterTool = Callable[[ToolCall, ToolResult], Awaitable[ToolResult]]
"""Called with a call's result; returns the result to use. One that raises is logged and changes nothing."""

Record = Callable[[ToolCall, ToolResult, bool], Awaitable[None]]
"""Stores one result as soon as there is one; the flag says that the run ends with it."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class ToolHooks:
    """What is asked before and after each tool call, in order."""

    before: tuple[BeforeTool, ...] = ()
    after: tuple[AfterTool, ...] = ()


@attrs.frozen
class BatchEnd:
    """How a batch went: whether every result asked to end the run, and the first verdict in call order."""

    terminate: bool
    verdict: Verdict | None


class _SerialRun:
    """The run as the tools of one batch see it: one event at a time, although tools run side by side."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._turn = trio.Lock()

    async def status(self, text: str) -> None:
        """Show a WORKING status update with this text."""
        async with self._turn:
            await self._emit(StatusNote(text))

    async def artifact(self, artifact: Raw, *, append: bool, last_chunk: bool) -> None:
        """Add or extend an artifact."""
        async with self._turn:
            await self._emit(ArtifactNote(artifact, append, last_chunk))

    async def end(self, call: ToolCall, result: ToolResult) -> None:
        """Tell that a call is done."""
        async with self._turn:
            await self._emit(ToolEnd(call, result))


class ToolBatch:
    """The calls of one response, run once.

    Calls are looked up and asked about one after another, then run together, or in order when one of the tools is
    sequential. Results are recorded as they come. When the run is cancelled, or the listener or the transcript fails,
    every call without a result is left for `unfinished`.
    """

    def __init__(
        self, tools: Mapping[str, Tool], hooks: ToolHooks, emit: Emit, record: Record, calls: Sequence[ToolCall]
    ) -> None:
        self._tools = tools
        self._hooks = hooks
        self._emit = emit
        self._record = record
        self._calls = calls
        self._run = _SerialRun(emit)
        self._results: list[ToolResult | None] = [None] * len(calls)
        self._failure: Exception | None = None

    def unfinished(self) -> list[ToolCall]:
        """Return the calls that have no recorded result, in call order."""
        return [call for call, result in zip(self._calls, self._results, strict=True) if result is None]

    def results(self) -> list[ToolResult]:
        """Return the results there are, in call order."""
        return [result for result in self._results if result is not None]

    async def run(self) -> BatchEnd:
        """Run every call.

        Raises:
            Exception: what the listener or the transcript raised; the other calls were cancelled then.
        """
        ready: list[tuple[int, Tool]] = []
        for at, call in enumerate(self._calls):
            await self._emit(ToolStart(call))
            refusal = await self._refusal(call)
            if refusal is None:
                ready.append((at, self._tools[call.name]))
            else:
                await self._finish(at, ToolResult(refusal, is_error=True))
        if len(ready) > 1 and all(tool.execution is ExecutionMode.PARALLEL for _, tool in ready):
            await self._run_together(ready)
        else:
            for at, tool in ready:
                await self._finish(at, await self._call(tool, self._calls[at]))
        results = self.results()
        verdict = next((result.verdict for result in results if result.verdict is not None), None)
        return BatchEnd(all(result.terminate for result in results), verdict)

    async def _refusal(self, call: ToolCall) -> str | None:
        if call.name not in self._tools:
            return f'There is no tool "{call.name}".'
        for hook in self._hooks.before:
            try:
                reason = await hook(call)
            except Exception:  # noqa: BLE001 - a gate that fails must stay shut
                _log.exception("a check before a tool call failed; the call is blocked", tool=call.name)
                return "Blocked: the check before this call failed."
            if reason is not None:
                return f"Blocked: {reason}"
        return None

    async def _run_together(self, ready: Sequence[tuple[int, Tool]]) -> None:
        async with trio.open_nursery() as nursery:
            for at, tool in ready:
                nursery.start_soon(self._run_beside, nursery.cancel_scope, at, tool)
        if self._failure is not None:
            raise self._failure

    async def _run_beside(self, siblings: trio.CancelScope, at: int, tool: Tool) -> None:
        result = await self._call(tool, self._calls[at])
        try:
            await self._finish(at, result)
        except Exception as error:  # noqa: BLE001 - raised again by the batch
            # Raised out of the nursery it would reach the caller wrapped in a group.
            self._failure = self._failure or error
            siblings.cancel()

    async def _call(self, tool: Tool, call: ToolCall) -> ToolResult:
        try:
            result = await tool.run(call, self._run)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is the model's to read
            _log.warning("tool failed", tool=call.name, error=type(error).__name__)
            result = ToolResult(KEYS.scrub(str(error)) or type(error).__name__, is_error=True)
        for hook in self._hooks.after:
            try:
                result = await hook(call, result)
            except Exception:  # noqa: BLE001 - a hook's bug must not lose the result
                _log.exception("a hook after a tool call failed", tool=call.name)
        return result

    async def _finish(self, at: int, result: ToolResult) -> None:
        self._results[at] = result
        done = self.results()
        ends = len(done) == len(self._calls) and all(one.terminate for one in done)
        await self._record(self._calls[at], result, ends)
        await self._run.end(self._calls[at], result)

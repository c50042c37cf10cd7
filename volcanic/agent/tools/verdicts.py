"""The tools by which an assistant ends a caller's run: ask for input, ask for authorisation, decline.

They exist in callers' sessions alone (seed: a2a.md#sessions). Each ends the run with its text as the task's status
message, without another model call when nothing else was called beside it.
"""

from __future__ import annotations

import functools
from typing import Annotated, final

import msgspec

from volcanic.agent.tools.arguments import read, schema
from volcanic.extension import ExecutionMode, JsonObject, RunPort, Tool, ToolCall, ToolResult, Verdict, VerdictState

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `request_input`."""

    question: Annotated[_Text, msgspec.Meta(description="What you need to know, in full.")]


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `request_auth`."""

    text: Annotated[_Text, msgspec.Meta(description="What has to be authorised, and how.")]


class Decline(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `decline`."""

    reason: Annotated[_Text, msgspec.Meta(description="Why, in words for the caller.")]


@final
class VerdictTool:
    """A tool whose call is a verdict: its one argument is the text that goes with the state."""

    execution = ExecutionMode.PARALLEL

    def __init__(
        self, name: str, description: str, arguments: type[Question | Wanted | Decline], state: VerdictState
    ) -> None:
        self.name = name
        self.description = description
        self.parameters: JsonObject = schema(arguments)
        self._arguments = arguments
        self._state = state

    async def run(self, call: ToolCall, run: RunPort) -> ToolResult:  # noqa: ARG002
        """End the run.

        Raises:
            InvalidArgumentsError: the text is missing or empty; the run goes on.
        """
        match read(call, self._arguments):
            case Question(question=text) | Wanted(text=text) | Decline(reason=text):
                return ToolResult("Passed on to the caller.", terminate=True, verdict=Verdict(self._state, text))


@functools.cache
def verdict_tools() -> tuple[Tool, ...]:
    """Return the verdict tools of a caller's session; they hold no state and serve every session."""
    return (
        VerdictTool(
            "request_input",
            "Ask the caller a question and end your turn. The task waits; the caller's answer continues it.",
            Question,
            VerdictState.INPUT_REQUIRED,
        ),
        VerdictTool(
            "request_auth",
            "Tell the caller that you need an authorisation from them and end your turn. The task waits for it.",
            Wanted,
            VerdictState.AUTH_REQUIRED,
        ),
        VerdictTool(
            "decline",
            "Refuse the task for good and end your turn.",
            Decline,
            VerdictState.REJECTED,
        ),
    )

"""Make a conversation fit for a model, whatever interrupted it (agent-core facts, section 2)."""

from __future__ import annotations

from collections.abc import Iterable

from volcanic.agent.messages import (
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

INTERRUPTED = "No result: the run was interrupted before this call finished."


def repair(messages: Iterable[Message]) -> list[Message]:
    """Return the messages as a model may get them.

    Responses that ended in `error` or `aborted` are left out, with their tool results. Each tool call is followed by
    exactly one result, in call order: a missing one becomes an error result, a second one or one without its call is
    left out. Repairing twice changes nothing more.
    """
    repaired: list[Message] = []
    calls: list[ToolCallBlock] = []
    results: dict[str, ToolResultMessage] = {}
    asked_at = 0
    for message in messages:
        if isinstance(message, ToolResultMessage):
            results.setdefault(message.tool_call_id, message)
            continue
        if isinstance(message, AssistantMessage) and message.stop_reason in {StopReason.ERROR, StopReason.ABORTED}:
            # Its results, which come next, must not be taken for those of the calls before it.
            repaired += _answers(calls, results, asked_at)
            calls, results = [], {}
            continue
        if isinstance(message, AssistantMessage):
            repaired += _answers(calls, results, asked_at)
            calls, results, asked_at = _once(message.tool_calls()), {}, message.timestamp
            repaired.append(message)
            continue
        repaired += _answers(calls, results, asked_at)
        calls, results = [], {}
        repaired.append(message)
    return repaired + _answers(calls, results, asked_at)


def _once(calls: list[ToolCallBlock]) -> list[ToolCallBlock]:
    return list({call.id: call for call in calls}.values())


def _answers(calls: list[ToolCallBlock], results: dict[str, ToolResultMessage], asked_at: int) -> list[Message]:
    return [results.get(call.id) or filler(call, INTERRUPTED, asked_at) for call in calls]


def filler(call: ToolCallBlock, text: str, timestamp: int) -> ToolResultMessage:
    """Return the error result that stands in for a call's own."""
    return ToolResultMessage(
        tool_call_id=call.id, tool_name=call.name, content=[TextBlock(text)], timestamp=timestamp, is_error=True
    )


def count_prompts(messages: Iterable[Message]) -> int:
    """Return how many runs the messages show: user messages that were not put into a run already going on."""
    return sum(1 for message in messages if isinstance(message, UserMessage) and not message.queued)

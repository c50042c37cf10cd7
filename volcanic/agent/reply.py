"""One model response while it comes in."""

from __future__ import annotations

from volcanic.agent.events import Emit, TextDelta, ThinkingDelta
from volcanic.agent.messages import TextBlock, ThinkingBlock, ToolCallBlock
from volcanic.agent.models.port import ModelEvent
from volcanic.extension import Verdict


class Reply:
    """Passes a model's events on and keeps its text, so that a response cut short can be recorded.

    Attributes:
        verdict: What the model itself said about the run's end, if anything (scripted models only).
    """

    __slots__ = ("_emit", "_text", "_thinking", "verdict")

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._text: list[str] = []
        self._thinking: list[str] = []
        self.verdict: Verdict | None = None

    async def hear(self, event: ModelEvent) -> None:
        """Take one event of the model."""
        if isinstance(event, Verdict):
            self.verdict = event
            return
        if isinstance(event, TextDelta):
            self._text.append(event.text)
        elif isinstance(event, ThinkingDelta):
            self._thinking.append(event.text)
        await self._emit(event)

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._text)

    def content(self) -> list[TextBlock | ThinkingBlock | ToolCallBlock]:
        """Return what came so far as the content of a message."""
        content: list[TextBlock | ThinkingBlock | ToolCallBlock] = []
        if self._thinking:
            content.append(ThinkingBlock("".join(self._thinking)))
        if self._text:
            content.append(TextBlock(self.text()))
        return content

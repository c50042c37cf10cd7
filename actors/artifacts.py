"""The artifacts of one run while it runs: the streamed `response` text and what the assistant adds beside it."""

from __future__ import annotations

import attrs
import msgspec

from volcanic.protocol.types import Artifact, Part

RESPONSE = "response"
"""Id and name of the artifact that holds the assistant's final text (a2a.md#task-lifecycle)."""

FLUSH_CHARACTERS = 4096
"""A chunk of text goes out when this much waits, at the latest after the run's flush interval."""


def response(text: str) -> Artifact:
    """Return the `response` artifact with this text."""
    return Artifact(artifact_id=RESPONSE, name=RESPONSE, parts=[Part(text=text)])


@attrs.frozen
class Chunk:
    """One artifact event to send."""

    artifact: Artifact
    append: bool
    last: bool


class ResponseText:
    """The assistant's text as followers see it grow.

    Chunks append to the artifact; a new assistant message of the same run starts it over (`append` false). What was
    said once is never said twice: a chunk leaves `pending` exactly when it becomes part of `shown`.
    """

    __slots__ = ("_pending", "_pending_size", "_shown", "_started")

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._pending: list[str] = []
        self._pending_size = 0
        self._started = False

    def restart(self) -> None:
        """Begin a new assistant message; the text of the one before is replaced when the new one has any."""
        self._shown.clear()
        self._pending.clear()
        self._pending_size = 0
        self._started = False

    def add(self, text: str) -> bool:
        """Take a delta; return whether enough waits to be flushed now."""
        self._pending.append(text)
        self._pending_size += len(text)
        return self._pending_size >= FLUSH_CHARACTERS

    def flush(self) -> Chunk | None:
        """Return what waits as a chunk, or None when nothing does."""
        if not self._pending_size:
            return None
        return self._chunk(last=False)

    def text(self) -> str:
        """Return all that was shown of the current message."""
        return "".join(self._shown)

    def finish(self, final: str) -> Chunk | None:
        """Return the chunk that completes the artifact as `final`, or None when there is no text at all."""
        if not final:
            return None
        if self.text() + "".join(self._pending) == final and self._started:
            return self._chunk(last=True)
        self.restart()
        self.add(final)
        return self._chunk(last=True)

    def _chunk(self, *, last: bool) -> Chunk:
        text = "".join(self._pending)
        self._pending.clear()
        self._pending_size = 0
        append, self._started = self._started, True
        self._shown.append(text)
        return Chunk(response(text), append=append, last=last)


def merge(artifacts: list[Artifact], new: Artifact, *, append: bool) -> list[Artifact]:
    """Return the list with `new` added, put in place of the one with its id, or its parts appended to that one.

    An append to an id not seen yet creates the artifact: output is never lost.
    """
    for index, old in enumerate(artifacts):
        if old.artifact_id == new.artifact_id:
            merged = msgspec.structs.replace(old, parts=[*old.parts, *new.parts]) if append else new
            return [*artifacts[:index], merged, *artifacts[index + 1 :]]
    return [*artifacts, new]


def with_response(artifacts: list[Artifact], text: str) -> list[Artifact]:
    """Return the list with the `response` artifact replaced by this text, or without one when there is none."""
    others = [artifact for artifact in artifacts if artifact.artifact_id != RESPONSE]
    return [*others, response(text)] if text else others

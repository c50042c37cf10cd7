"""What a session needs from the place that keeps its conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class TranscriptPort(Protocol):
    """A session's messages, oldest first, each as one line of JSON (`volcanic.agent.messages`).

    The session awaits every `append` before it goes on: before the model is called with a user message, before a tool
    call of an assistant message runs. So what a host stores together with a run's first append is stored before the
    model runs.
    """

    async def load(self) -> Sequence[bytes]:
        """Return the messages of the current branch. A new session has none.

        Raises:
            OSError: the transcript could not be read.
        """

    async def append(self, messages: Sequence[bytes], *, last: bool) -> None:
        """Add messages, in order.

        `last` says that the run ends with them: they may be kept back until the run's outcome is stored, and stored
        with it. Cancelling the call does not undo it.

        Raises:
            OSError: they could not be stored; the run ends with that error.
        """

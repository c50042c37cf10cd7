"""Asking an actor: one-shot replies, with the answer taken by a task (`ask`) or by a callback (the Owner API)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import trio

from volcanic.protocol.errors import A2AError

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Reply(Protocol[R_contra]):
    """Where an answer goes. Exactly one of the two is called, once; later calls are ignored."""

    def answer(self, result: R_contra) -> None:
        """Hand over the result."""

    def refuse(self, error: A2AError) -> None:
        """Hand over the refusal."""


class Promise(Generic[R]):
    """A reply that one task waits for."""

    __slots__ = ("_done", "_error", "_result")

    def __init__(self) -> None:
        self._done = trio.Event()
        self._result: R | None = None
        self._error: A2AError | None = None

    def answer(self, result: R) -> None:
        """Wake the waiting task with the result; ignored when it has one already."""
        if not self._done.is_set():
            self._result = result
            self._done.set()

    def refuse(self, error: A2AError) -> None:
        """Wake the waiting task with the refusal; ignored when it has an answer already."""
        if not self._done.is_set():
            self._error = error
            self._done.set()

    async def wait(self) -> R:
        """Return the result.

        Raises:
            A2AError: the actor refused.
        """
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # an answer may be None where R allows it


async def ask(tell: Callable[[Promise[R]], None], seconds: float) -> R:
    """Send a message that carries a promise, and wait for its answer at most `seconds`.

    Raises:
        A2AError: the actor refused.
        trio.TooSlowError: no answer came in time; the actor may still act on the message.
    """
    promise: Promise[R] = Promise()
    tell(promise)
    with trio.fail_after(seconds):
        return await promise.wait()

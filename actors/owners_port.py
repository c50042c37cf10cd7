"""The port through which the server reaches the owners of contexts and tasks (design: the Owner API, client side).

The server imports these types only; `actors.owner` implements them over sockets, tests implement them in memory.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Raw

from actors.messages import CancelTask, End, Event, GetTask, ListPage, ListTasks, Send, Subscribe


class EventStream(Protocol):
    """The events of one accepted stream, in order."""

    async def receive(self) -> Event | End:
        """Return the next event, or `End`, which is the last thing a stream gives.

        It may be cancelled at any time without losing an event.
        """


class Owners(Protocol):
    """Every owner there is, whichever process it lives in.

    A call that is refused raises `volcanic.protocol.errors.A2AError`; one whose owner cannot be reached within
    `seconds` raises it as UNAVAILABLE. Cancelling a call tells the owner that its caller has left.
    """

    def ready(self) -> bool:
        """Whether every slot is serving."""

    async def send_message(self, send: Send, seconds: float) -> Raw:
        """Start or continue a task; return the JSON of a SendMessageResponse."""

    def stream(self, call: Send | Subscribe, seconds: float) -> AbstractAsyncContextManager[EventStream]:
        """Open a stream; entering raises `A2AError` when it is refused before its first event, leaving ends it."""

    async def get_task(self, call: GetTask, seconds: float) -> Raw:
        """Return the JSON of a Task."""

    async def list_tasks(self, call: ListTasks, seconds: float) -> ListPage:
        """Return one page merged over all slots: at most `call.limit` rows, and how many tasks match in all."""

    async def cancel_task(self, call: CancelTask, seconds: float) -> Raw:
        """Cancel a task; return its JSON."""

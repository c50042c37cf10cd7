"""One incarnation of a child: from its start to the moment its last frame is gone."""

from __future__ import annotations

import math
from typing import Protocol

import trio

from supervisors.child_spec import StartFn
from supervisors.exits import SHUTDOWN, Exit, ends_process, exit_of


class Keeper(Protocol):
    """Whom a life tells about itself. Both calls are synchronous and come from the child's own task."""

    def life_ready(self) -> None:
        """The child called `started()`."""
        ...

    def life_over(self) -> None:
        """The child's function has returned or raised; nothing of it runs any more."""
        ...


class Life:
    """The task of one incarnation, and its `task_status`.

    The child runs in a shielded scope: a cancellation of the supervisor does not reach it directly, so that children
    can be stopped one by one, in order, each within its own time. `ask` is the only thing that cancels it.
    """

    __slots__ = ("_changed", "_keeper", "asked", "deadline", "declared", "exit", "ready", "scope", "since")

    def __init__(self, keeper: Keeper | None = None) -> None:
        self._keeper = keeper
        self._changed: trio.Event | None = None
        self.scope = trio.CancelScope(shield=True)
        self.since = math.inf
        """When it became ready, else when it began; on trio's clock."""
        self.ready = False
        self.asked = False
        self.deadline = math.inf
        """When an asked life is overdue."""
        self.declared = False
        """Whether it was overdue and its owner has been told."""
        self.exit: Exit | None = None

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.exit is not None

    @trio.lowlevel.enable_ki_protection
    def started(self, value: None = None) -> None:  # noqa: ARG002 - the signature of trio.TaskStatus
        """Take the child's word that it is initialised (`task_status.started()`); twice is the child's error."""
        if self.ready:
            raise RuntimeError("task_status.started() was called twice")
        self.ready = True
        self.since = trio.current_time()
        if self._keeper is not None:
            self._keeper.life_ready()
        self._wake()

    def ask(self, seconds: float) -> None:
        """Cancel it and set its deadline. Asking again changes nothing: the first deadline holds."""
        if not self.asked:
            self.asked = True
            self.deadline = trio.current_time() + seconds
            self.scope.cancel()

    async def live(  # noqa: ASYNC910 - a task's body: what it awaits is the child's to say
        self, start: StartFn, delay: float | None = None
    ) -> None:
        """Run the child to its end, after `delay` seconds; the task's body.

        Raises only what ends the program (`exits.ends_process`); any other exception becomes the exit. A life that was
        asked to stop before its task got to run does not call the child at all.
        """
        try:
            with self.scope:
                if delay is not None or self.asked:
                    await trio.sleep(delay or 0)
                self.since = trio.current_time()
                await start(self)
        except BaseException as error:  # noqa: ASYNC103 - no cancellation but this scope's gets in; see ends_process
            self._end(exit_of(error))
            if ends_process(error):
                raise
        else:
            self._end(SHUTDOWN if self.asked else exit_of(None))

    @trio.lowlevel.enable_ki_protection
    def _end(self, how: Exit) -> None:
        self.exit = how
        if self._keeper is not None:
            self._keeper.life_over()
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait_change(self) -> None:
        """Wait until it becomes ready or ends, whichever comes next."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

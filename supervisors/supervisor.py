"""The supervisor: a fixed order of children, restarted by OTP's rules.

(`volcanic.supervisor`, singular, is the program; this is the engine's class.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import trio

from supervisors.backoff import AT_ONCE_THEN_GROWING, Delays
from supervisors.child_spec import PERMANENT, ChildSpec, Restart
from supervisors.events import OnEvent, log_event
from supervisors.exits import Escalated, NotRunning, StartFailed, end_process
from supervisors.intensity import Intensity
from supervisors.siblings import Rules, Siblings
from supervisors.strategy import ONE_FOR_ONE, Strategy
from supervisors.tree import State, TreeNode

OTP_DEFAULT = Intensity(1, 5.0)
"""One restart in five seconds."""


class Supervisor:
    """Starts its children left to right, restarts them by `strategy`, stops them right to left.

    `run` is itself a `StartFn`, so a supervisor is a child: see `as_child`. It may run again after it ended (a restart
    by its parent) and then begins with the children it was constructed with.

    Args:
        id: names it in events and in the tree.
        children: specs in start order, ids unique.
        strategy: which siblings a failure concerns.
        intensity: more than `max_restarts` restarts in `period_s` seconds give up. One window for all children of
            `Counts.ALL`; one each for those of `Counts.BEFORE_READY`.
        backoff: delays before a *failed start* is tried again, and before a `BEFORE_READY` child is restarted. A death
            after `started()` under `Counts.ALL` is followed by a restart at once, as in OTP.
        on_event: told of every start, exit and decision, with the exceptions; by default the standard library's log.
        on_unstoppable: called once with the id of a child that outlived its shutdown time. Trio cannot end a task, so
            the default ends the process. A hook that returns leaves the supervisor waiting for that task: its id is
            never started again before the task is gone.

    `run` raises, after all children have stopped, `Escalated` over the intensity and `StartFailed` when a child does
    not start at first (a `BEFORE_READY` child is tried again up to the intensity); `Cancelled` when stopped. What ends
    the program (`KeyboardInterrupt` in a child) comes out as trio's group, after an ordered stop.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the word of OTP and of the tree
        children: Sequence[ChildSpec],
        strategy: Strategy = ONE_FOR_ONE,
        intensity: Intensity = OTP_DEFAULT,
        *,
        backoff: Delays = AT_ONCE_THEN_GROWING,
        on_event: OnEvent | None = None,
        on_unstoppable: Callable[[str], None] = end_process,
    ) -> None:
        ids = [spec.id for spec in children]
        if len(set(ids)) != len(ids):
            msg = f"supervisor {id!r}: child ids are not unique: {ids}"
            raise ValueError(msg)
        self.id = id
        self._rules = Rules(
            id=id,
            specs=tuple(children),
            strategy=strategy,
            intensity=intensity,
            backoff=backoff,
            on_event=on_event or log_event,
            on_unstoppable=on_unstoppable,
            incarnations={},
        )
        self._run: Siblings | None = None
        self._runs = 0

    def as_child(self, restart: Restart = PERMANENT) -> ChildSpec:
        """Give the spec that puts this supervisor under another one, its own tree included."""
        return ChildSpec(self.id, self.run, restart=restart, kind="supervisor", describe=self.describe)

    @trio.lowlevel.enable_ki_protection
    async def run(  # noqa: ASYNC114, ASYNC128 - started by a supervisor; the children's run calls started()
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep the children alive until cancelled; `task_status.started()` is called when all have started."""
        if self._run is not None:
            msg = f"supervisor {self.id!r} runs already"
            raise RuntimeError(msg)
        self._runs += 1
        failure: Escalated | StartFailed | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._run = Siblings(self._rules, nursery, task_status.started)
                try:
                    await self._run.serve()
                except (Escalated, StartFailed) as error:
                    failure = error
                finally:
                    await self._run.finish()  # noqa: ASYNC102 - shields itself, up to the children's deadlines
        finally:
            self._run = None
        assert failure is not None, "without a failure, a cancellation has left this function"
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame: no cycle that only the collector ends

    def describe(self) -> TreeNode:
        """Its tree now. Its own `restarts` are its parent's to know, and 0 here."""
        run = self._run
        return TreeNode(
            id=self.id,
            kind="supervisor",
            state=self._state(),
            incarnation=self._runs,
            children=[] if run is None else [child.node() for child in run.children],
        )

    def _state(self) -> State:
        if self._run is None:
            return "stopped"
        if self._run.closing:
            return "stopping"
        return "running" if self._run.up else "starting"

    async def start_child(self, spec: ChildSpec) -> None:
        """Add a child at the right end and wait until it has started.

        Raises `AlreadyStarted` (also for the id of a child that is stopped but kept), `StartFailed` (the spec is then
        forgotten), `NotRunning`. A cancelled caller leaves the child to the supervisor.
        """
        run = self._running(spec.id)
        await run.ask(spec.id, partial(run.start, spec), up=True)

    async def terminate_child(self, child: str) -> None:
        """Stop a child and wait until it is gone. Its spec is kept unless it is temporary.

        As in OTP it stays stopped until `restart_child`, or until a sibling's failure restarts it with the others.
        Raises `NoSuchChild`, `NotRunning`.
        """
        run = self._running(child)
        await run.ask(child, partial(run.terminate, child), up=False)

    async def restart_child(self, child: str) -> None:
        """Start a stopped child; stop it first when it runs. Waits until it has started; siblings are left alone.

        The restart is not counted. A failed start is: it is retried as after a crash, and the caller goes on waiting.
        Raises `NoSuchChild`, `StartFailed` when the child is stopped meanwhile (or temporary, and fails), `NotRunning`
        (also when the supervisor gives up meanwhile).
        """
        run = self._running(child)
        await run.ask(child, partial(run.restart, child), up=True)

    async def delete_child(self, child: str) -> None:
        """Forget the spec of a stopped child. Raises `AlreadyStarted` while it is not stopped, `NoSuchChild`."""
        run = self._running(child)
        await run.ask(child, partial(run.delete, child), up=False)

    def _running(self, child: str) -> Siblings:
        if self._run is None:
            raise NotRunning(self.id, child, "the supervisor is not running")
        return self._run

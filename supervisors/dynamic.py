"""Many independent children that come and go: OTP's simple_one_for_one, made for a hundred thousand.

One trio task a child, no nursery of its own, and the restart loop inside that task. The stated deviation from OTP:
intensity is counted per child, so that one crash-looping session ends alone.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import Callable
from functools import partial

import trio

from supervisors.backoff import AT_ONCE_THEN_GROWING, Delays
from supervisors.child_spec import PERMANENT, TEMPORARY, ChildSpec, Restart
from supervisors.events import Event, EventKind, OnEvent, guarded, log_event, tell
from supervisors.exits import AlreadyStarted, BoundExceeded, Exit, NotRunning, StartFailed, end_process
from supervisors.intensity import Intensity, RestartWindow
from supervisors.life import Life
from supervisors.tree import State, TreeNode, adopt

CHILD_DEFAULT = Intensity(5, 30.0)
"""Restarts one child may have: five in thirty seconds."""
STOP_BATCH = 256
"""Children asked to stop between two checkpoints when all must go, so that the loop is never blocked for long."""

OnDropped = Callable[[str, Exit], None]


class _Member:
    """One child. `life` is its present incarnation, which may still wait for its delay."""

    __slots__ = ("dropped", "failures", "gone", "incarnation", "life", "must_start", "restarts", "spec", "window")

    def __init__(self, spec: ChildSpec, incarnation: int, *, must_start: bool) -> None:
        self.spec = spec
        self.incarnation = incarnation
        self.must_start = must_start
        self.dropped = False
        self.life = Life()
        self.restarts = 0
        self.failures = 0
        self.window: RestartWindow | None = None
        self.gone: trio.Event | None = None

    def state(self) -> State:
        if self.life.asked:
            return "stopping"
        if self.restarts and self.life.since == math.inf:
            return "restarting"
        return "running" if self.life.ready else "starting"

    def node(self) -> TreeNode:
        node = TreeNode(
            id=self.spec.id,
            kind=self.spec.kind,
            state=self.state(),
            restarts=self.restarts,
            incarnation=self.incarnation,
        )
        return adopt(node, self.spec.describe)


class DynamicSupervisor:
    """Starts children on demand, each independent of the others; stops them all in parallel, in no order.

    `run` is a `StartFn` (see `as_child`); `task_status.started()` comes at once. All other methods belong to the thread
    and the trio run of `run`. It can run again after it ended, empty.

    Args:
        id: names it in events and in the tree.
        intensity: restarts *each child* may have. A child over it is forgotten and `on_dropped(id, exit)` called, the
            id free again by then.
        restart: for specs that leave theirs open.
        backoff: delays before restart 1, 2, … in a row. The row ends with a run longer than the intensity's period, or
            by `mark_healthy`.
        max_children: children held at once, those that still unwind included; None for no bound.
        on_event: told of exits with an exception and of restarts; by default the standard library's log.
        on_dropped: see `intensity`. What it raises is logged and changes nothing.
        on_unstoppable: as for `supervisor.Supervisor`: by default a child that outlives its shutdown time ends the
            process. An id is free only once its old task is gone.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the word of OTP and of the tree
        intensity: Intensity = CHILD_DEFAULT,
        *,
        restart: Restart = TEMPORARY,
        backoff: Delays = AT_ONCE_THEN_GROWING,
        max_children: int | None = None,
        on_event: OnEvent | None = None,
        on_dropped: OnDropped = lambda _id, _exit: None,
        on_unstoppable: Callable[[str], None] = end_process,
    ) -> None:
        self.id = id
        self._intensity = intensity
        self._restart = restart
        self._backoff = backoff
        self._bound = math.inf if max_children is None else max_children
        self._on_event = on_event or log_event
        self._on_dropped = on_dropped
        self._on_unstoppable = on_unstoppable
        self._nursery: trio.Nursery | None = None
        self._context = contextvars.Context()
        self._closing = False
        self._runs = 0
        self._incarnations = 0
        self._members: dict[str, _Member] = {}
        self._stopping: dict[str, _Member] = {}
        """Asked to stop and not yet overdue."""
        self._next_check = math.inf
        self._wake = trio.Event()

    def as_child(self, restart: Restart = PERMANENT) -> ChildSpec:
        """Give the spec that puts this supervisor under another one, its own tree included."""
        return ChildSpec(self.id, self.run, restart=restart, kind="supervisor", describe=self.describe)

    @trio.lowlevel.enable_ki_protection
    async def run(  # noqa: ASYNC114 - started by a supervisor, which asks nothing of the linter's list
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold children until cancelled, then stop them all, each within its shutdown time."""
        if self._nursery is not None:
            msg = f"supervisor {self.id!r} runs already"
            raise RuntimeError(msg)
        self._runs += 1
        self._closing = False
        # A child must not inherit, and keep alive, the context variables of whoever asked for its start.
        self._context = contextvars.copy_context()
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                try:
                    while True:
                        await self._idle()
                finally:
                    await self._finish()  # noqa: ASYNC102 - shields itself, up to the children's deadlines
        finally:
            self._nursery = None

    def start_child(self, spec: ChildSpec) -> None:
        """Start a child without waiting for it. Its first incarnation runs at the next checkpoint.

        Raises `AlreadyStarted`, `BoundExceeded`, `NotRunning`; nothing has happened then.
        """
        self._start(spec, must_start=False)

    async def start_child_ready(self, spec: ChildSpec) -> None:
        """Start a child and wait until it has called `task_status.started()`.

        Raises as `start_child`, and `StartFailed` when it ends before; it is not restarted then, whatever its restart
        type. A caller that is cancelled meanwhile takes the child with it.
        """
        member = self._start(spec, must_start=True)
        life = member.life
        try:
            await life.wait_change()
        except trio.Cancelled:
            self._ask(member)
            raise
        if life.exit is not None and not life.ready:
            raise StartFailed(self.id, spec.id, life.exit) from life.exit.error

    async def stop_child(self, child: str) -> bool:
        """Stop a child and wait until nothing of it runs; False when there was none, which is no error.

        A cancelled caller does not call off the stop, nor its deadline.
        """
        member = self._members.get(child)
        if member is None:
            await trio.lowlevel.checkpoint()
            return False
        self._ask(member)
        if member.gone is None:
            member.gone = trio.Event()
        await member.gone.wait()
        return True

    def request_stop(self, child: str) -> bool:
        """Ask a child to stop without waiting for it; False when there is none."""
        member = self._members.get(child)
        if member is None:
            return False
        self._ask(member)
        return True

    def mark_healthy(self, child: str) -> None:
        """End a child's row of failures: its next restart is its first again, in delay and in count."""
        member = self._members.get(child)
        if member is not None:
            member.failures = 0
            member.window = None

    def children(self) -> dict[str, int]:
        """Give each child's id and incarnation now. Incarnations grow with every start and never repeat."""
        return {id_: member.incarnation for id_, member in self._members.items()}

    def __contains__(self, child: object) -> bool:
        return child in self._members

    def __len__(self) -> int:
        return len(self._members)

    def describe(self) -> TreeNode:
        """Its tree now, a node per child. Its own `restarts` are its parent's to know, and 0 here."""
        return TreeNode(
            id=self.id,
            kind="supervisor",
            state="stopped" if self._nursery is None else "stopping" if self._closing else "running",
            incarnation=self._runs,
            children=[member.node() for member in self._members.values()],
        )

    def _start(self, spec: ChildSpec, *, must_start: bool) -> _Member:
        nursery = self._nursery
        if nursery is None or self._closing:
            raise NotRunning(self.id, spec.id, "the supervisor is not running, or stopping")
        if spec.id in self._members:
            raise AlreadyStarted(self.id, spec.id, "the id is taken")
        if len(self._members) >= self._bound:
            raise BoundExceeded(self.id, spec.id, f"it holds {len(self._members)} children already")
        self._incarnations += 1
        member = _Member(spec, self._incarnations, must_start=must_start)
        self._members[spec.id] = member
        self._context.run(lambda: nursery.start_soon(self._keep, member, name=spec.id))
        return member

    async def _keep(self, member: _Member) -> None:
        """Run a child through its incarnations; the child's task."""
        delay: float | None = None
        try:
            while True:
                await member.life.live(member.spec.start, delay)
                delay = self._delay_after(member, member.life)
                if delay is None:
                    break
                self._incarnations += 1
                member.incarnation = self._incarnations
                member.life = Life()
        finally:
            self._forget(member)

    def _delay_after(self, member: _Member, life: Life) -> float | None:
        """Judge an ended life: seconds before its successor starts, None when there is none."""
        how = life.exit
        assert how is not None, "only an ended life is judged"
        failed_start = member.must_start and not life.ready
        if how.error is not None or failed_start:
            self._tell(EventKind.START_FAILED if failed_start else EventKind.EXITED, member, how, asked=life.asked)
        member.must_start = False
        wanted = (member.spec.restart or self._restart).applies_to(how.kind)
        if failed_start or life.asked or self._closing or not wanted:
            return None
        now = trio.current_time()
        if member.window is None:
            member.window = RestartWindow(self._intensity)
        if not member.window.add(now):
            self._tell(EventKind.DROPPED, member, how)
            member.dropped = True
            return None
        if now - life.since > self._intensity.period_s:
            member.failures = 0
        member.failures += 1
        member.restarts += 1
        delay = self._backoff.delay(member.failures)
        self._tell(EventKind.RESTARTING, member, None, delay=delay)
        return delay

    @trio.lowlevel.enable_ki_protection
    def _forget(self, member: _Member) -> None:
        """Free a child's id: nothing of it runs any more."""
        del self._members[member.spec.id]
        self._stopping.pop(member.spec.id, None)
        if member.gone is not None:
            member.gone.set()
        if self._closing and not self._stopping:
            self._wake.set()
        if member.dropped and member.life.exit is not None:
            guarded("on_dropped", partial(self._on_dropped, member.spec.id, member.life.exit))

    def _ask(self, member: _Member) -> None:
        life = member.life
        if life.asked or life.exit is not None:
            return
        life.ask(member.spec.shutdown)
        self._stopping[member.spec.id] = member
        if life.deadline < self._next_check:
            self._next_check = life.deadline
            self._wake.set()

    async def _idle(self) -> None:
        """Wait for the next deadline of a child that was asked to stop, and tell of those that missed it."""
        with trio.CancelScope(deadline=self._next_check, shield=self._closing):
            await self._wake.wait()
        self._wake = trio.Event()
        now = trio.current_time()
        if now < self._next_check:
            return
        overdue = [member for member in self._stopping.values() if member.life.deadline <= now]
        for member in overdue:
            del self._stopping[member.spec.id]
        self._next_check = min((member.life.deadline for member in self._stopping.values()), default=math.inf)
        for member in overdue:
            self._tell(EventKind.UNSTOPPABLE, member, None)
            self._on_unstoppable(member.spec.id)

    async def _finish(self) -> None:
        """Stop all children at once, whatever the caller's cancellation; each has its own shutdown time.

        Returns when all are gone but those that have outlived their time and whose owner has been told.
        """
        self._closing = True
        await trio.lowlevel.cancel_shielded_checkpoint()
        for count, member in enumerate(list(self._members.values())):
            self._ask(member)
            if count % STOP_BATCH == 0:
                await trio.lowlevel.cancel_shielded_checkpoint()
        while self._stopping:
            await self._idle()

    def _tell(
        self, kind: EventKind, member: _Member, how: Exit | None, *, asked: bool = False, delay: float = 0.0
    ) -> None:
        event = Event(
            kind=kind,
            supervisor=self.id,
            child=member.spec.id,
            incarnation=member.incarnation,
            exit=how,
            asked=asked,
            delay=delay,
        )
        tell(self._on_event, event)

"""One run of a supervisor: the children it holds and the steps by which it starts, restarts and stops them.

Everything is decided in synchronous steps between two waits, and all waiting happens in one place (`_idle`). A stop
is a cancellation; it can arrive at that one place only, so it never finds a half-done restart, and a child that fails
to start again and again cannot keep it out. A restart of several children is a plan (what to stop, then what to
start) that the same steps work off while children end and start.
"""

from __future__ import annotations

import contextvars
import math
from collections import deque
from collections.abc import Callable

import attrs
import trio

from supervisors.backoff import Delays
from supervisors.child import Child, Request
from supervisors.child_spec import ChildSpec, Counts
from supervisors.events import Event, EventKind, OnEvent, tell
from supervisors.exits import (
    SHUTDOWN,
    AlreadyStarted,
    Escalated,
    Exit,
    NoSuchChild,
    NotRunning,
    Refused,
    StartFailed,
    ends_process,
)
from supervisors.intensity import Intensity, RestartWindow
from supervisors.life import Life
from supervisors.strategy import ONE_FOR_ONE, Strategy


@attrs.frozen
class Rules:
    """What a supervisor was constructed with; `supervisor.Supervisor` documents each."""

    id: str
    specs: tuple[ChildSpec, ...]
    strategy: Strategy
    intensity: Intensity
    backoff: Delays
    on_event: OnEvent
    on_unstoppable: Callable[[str], None]
    incarnations: dict[str, int]
    """The last incarnation of each id, over all runs."""


class Siblings:
    """The children of one run, in start order. Its tasks live in the nursery it is given."""

    def __init__(self, rules: Rules, nursery: trio.Nursery, on_up: Callable[[], None]) -> None:
        self._rules = rules
        self._nursery = nursery
        self._on_up = on_up
        # A child must not inherit, and keep alive, the context variables of whoever asked for its start.
        self._context = contextvars.copy_context()
        self._window = RestartWindow(rules.intensity)
        self._wake = trio.Event()
        self._ended: deque[tuple[Child, Life]] = deque()
        """Bounded by the children: each has one life at a time, and an entry is taken before the next one starts."""
        self._requests: deque[Request] = deque()
        """Bounded by the tasks that wait for an answer."""
        self.children = [self._record(spec) for spec in rules.specs]
        self._starts: deque[Child] = deque(self.children)
        self._stops: list[Child] = []
        self.up = False
        self.closing = False

    # What other tasks may call

    async def ask(self, child: str, act: Callable[[Request], None], *, up: bool) -> None:
        """Have `act` called in turn by the supervisor's task and wait until the child is up (or down)."""
        if self.closing:
            raise NotRunning(self._rules.id, child, "the supervisor is stopping")
        request = Request(act, up=up)
        self._requests.append(request)
        self._wake.set()
        try:
            await request.done.wait()
        finally:
            request.withdrawn = True
        if request.error is not None:
            raise request.error

    def start(self, spec: ChildSpec, request: Request) -> None:
        """Add a child at the right end; the request is finished when it is ready."""
        if any(child.spec.id == spec.id for child in self.children):
            raise AlreadyStarted(self._rules.id, spec.id, "the id is taken")
        child = self._record(spec)
        child.trial = True
        child.waiting.append(request)
        self.children.append(child)
        self._begin(child)

    def terminate(self, child_id: str, request: Request) -> None:
        """Stop a child and keep it stopped; the request is finished when it is gone."""
        child = self._find(child_id)
        child.waiting.append(request)
        child.again = False
        child.retry_at = None
        if child.life is None:
            self._fell(child)
        else:
            child.life.ask(child.spec.shutdown)

    def restart(self, child_id: str, request: Request) -> None:
        """Start a child, after its end when it runs; the request is finished when it is ready."""
        child = self._find(child_id)
        child.waiting.append(request)
        if child.life is None:
            self._begin(child)
        else:
            child.again = True
            child.life.ask(child.spec.shutdown)

    def delete(self, child_id: str, request: Request) -> None:
        """Forget a stopped child."""
        child = self._find(child_id)
        if child.life is not None or child.retry_at is not None:
            raise AlreadyStarted(self._rules.id, child_id, "it is not stopped")
        self.children.remove(child)
        request.finish()

    # The supervisor's task

    async def serve(self) -> None:
        """Start the children in order, then keep them. Raises `Escalated`, `StartFailed`, `Cancelled`."""
        await trio.lowlevel.checkpoint()
        self._all_started()
        while True:
            self._advance()
            await self._idle()

    async def finish(self) -> None:
        """Stop the children right to left, each within its shutdown time, whatever the caller's cancellation.

        Returns when all are gone but those that have outlived their time and whose owner has been told.
        """
        self.closing = True
        await trio.lowlevel.cancel_shielded_checkpoint()
        refusal = NotRunning(self._rules.id, "", "the supervisor is stopping")
        for request in self._requests:
            request.finish(refusal)
        for child in self.children:
            child.retry_at = None
            child.settle(refusal, up=True)
        self._stops = [child for child in self.children if child.life is not None]
        try:
            while not self._all_stopped():
                await self._idle()
        finally:
            # An impatient second Ctrl-C ends the order, but nobody may be left who was never asked.
            for child in self.children:
                if child.life is not None:
                    child.life.ask(child.spec.shutdown)

    async def _idle(self) -> None:
        """Wait for a child, a request or the next timer."""
        with trio.CancelScope(deadline=self._next_timer(), shield=self.closing):
            await self._wake.wait()
        self._wake = trio.Event()

    def _next_timer(self) -> float:
        """Give the next time at which `_advance` has something to do; one it would pass over would spin the loop."""
        times = [math.inf]
        for child in self.children:
            life = child.life
            if life is not None and not life.over and not life.declared:
                times.append(life.deadline)
            elif child.retry_at is not None and self._may_start(child):
                times.append(child.retry_at)
        return min(times)

    def _may_start(self, child: Child) -> bool:
        """Whether the plan lets a child start now; under a group strategy only its own next one."""
        if self._stops:
            return False
        return not self._starts or self._rules.strategy is ONE_FOR_ONE or child is self._starts[0]

    def _advance(self) -> None:
        """Do all that can be done now; what remains waits for a child or a timer."""
        while self._all_stopped() and self._step():
            pass

    def _step(self) -> bool:
        if self._starts:
            if self._start_next():
                return True
            if self._rules.strategy is not ONE_FOR_ONE:
                return False
        return self._take_due() or self._take_ended() or self._take_request()

    def _all_stopped(self) -> bool:
        """Stop what the plan says, from the right; True when nothing is left to stop."""
        self._declare_overdue()
        while self._stops:
            child = self._stops[-1]
            life = child.life
            if life is None or life.over:
                self._stops.pop()
                self._fell(child)
            elif self.closing and life.declared:
                self._stops.pop()
            elif life.asked:
                return False
            else:
                life.ask(child.spec.shutdown)
        return True

    def _declare_overdue(self) -> None:
        for child in self.children:
            life = child.life
            if life is not None and not life.over and not life.declared and trio.current_time() >= life.deadline:
                life.declared = True
                self._tell(EventKind.UNSTOPPABLE, child)
                self._rules.on_unstoppable(child.spec.id)

    def _start_next(self) -> bool:
        """Move the plan's next start on; False while it has to be waited for."""
        child = self._starts[0]
        life = child.life
        if life is None:
            if child.retry_at is None or child.retry_at <= trio.current_time():
                self._begin(child)
            return False
        if life.ready:
            self._starts.popleft()
            self._all_started()
            return True
        if life.exit is None:
            return False
        child.life = None
        if self.up:
            # The rest of the plan is tried again as a whole, so that a stop, or the end of a sibling, gets in between.
            self._starts.clear()
        elif child.spec.counts is Counts.ALL or child.temporary:
            raise StartFailed(self._rules.id, child.spec.id, life.exit) from life.exit.error
        self._start_failed(child, life.exit)
        return True

    def _all_started(self) -> None:
        if not self._starts and not self.up:
            self.up = True
            self._on_up()

    def _take_due(self) -> bool:
        now = trio.current_time()
        for child in self.children:
            if child.retry_at is not None and child.retry_at <= now:
                self._restart(child)
                return True
        return False

    def _take_ended(self) -> bool:
        if not self._ended:
            return False
        child, life = self._ended.popleft()
        if child.life is life and life.exit is not None:
            child.life = None
            self._exited(child, life, life.exit)
        return True

    def _take_request(self) -> bool:
        if not self._requests or not self.up:
            return False
        request = self._requests.popleft()
        if not request.withdrawn:
            try:
                request.act(request)
            except Refused as refusal:
                request.finish(refusal)
        return True

    def _exited(self, child: Child, life: Life, how: Exit) -> None:
        if life.asked:
            if child.again:
                self._begin(child)
            else:
                self._fell(child)
        elif not life.ready:
            self._start_failed(child, how)
        elif child.restarts_after(life):
            self._died(child, life, how)
        else:
            self._fell(child)

    def _start_failed(self, child: Child, how: Exit) -> None:
        if child.temporary or child.trial:
            self._fell(child, how)
            return
        own = child.spec.counts is Counts.BEFORE_READY
        self._count(child.window if own else self._window, child, how)
        child.failures += 1
        self._retry(child, self._rules.backoff.delay(child.failures))

    def _died(self, child: Child, life: Life, how: Exit) -> None:
        """Restart a child that had been ready."""
        if child.spec.counts is Counts.ALL:
            self._count(self._window, child, how)
            self._retry(child, 0.0)
            return
        if trio.current_time() - life.since > self._rules.intensity.period_s:
            child.failures = 0
        child.failures += 1
        self._retry(child, self._rules.backoff.delay(child.failures))

    def _count(self, window: RestartWindow, child: Child, how: Exit) -> None:
        if not window.add(trio.current_time()):
            self._tell(EventKind.ESCALATED, child, how)
            raise Escalated(self._rules.id, child.spec.id, how) from how.error

    def _retry(self, child: Child, delay: float) -> None:
        child.retry_at = trio.current_time() + delay
        self._tell(EventKind.RESTARTING, child, delay=delay)

    def _restart(self, child: Child) -> None:
        if self._rules.strategy is ONE_FOR_ONE:
            self._begin(child)
            return
        affected = self._rules.strategy.affected(self.children, child)
        for sibling in affected:
            sibling.retry_at = None
        self._stops = [sibling for sibling in affected if sibling.life is not None]
        self._starts = deque(sibling for sibling in affected if not sibling.temporary)

    def _fell(self, child: Child, how: Exit = SHUTDOWN) -> None:
        """Take a child as down. What must not come back is forgotten, and who waited for it to be up is told."""
        child.life = None
        child.settle(up=False)
        if child in self._starts:
            child.trial = False
            return
        if child.temporary or child.trial:
            self.children.remove(child)
        error = StartFailed(self._rules.id, child.spec.id, how)
        error.__cause__ = how.error
        child.settle(error, up=True)

    def _record(self, spec: ChildSpec) -> Child:
        return Child(spec, self, RestartWindow(self._rules.intensity))

    def _begin(self, child: Child) -> None:
        last = self._rules.incarnations
        child.incarnation = last[child.spec.id] = last.get(child.spec.id, 0) + 1
        child.starts += 1
        child.retry_at = None
        child.again = False
        child.life = life = Life(child)
        self._context.run(lambda: self._nursery.start_soon(life.live, child.spec.start, name=child.spec.id))

    def _find(self, child_id: str) -> Child:
        for child in self.children:
            if child.spec.id == child_id:
                return child
        raise NoSuchChild(self._rules.id, child_id, "no such child")

    # What the children's own tasks call

    def child_ready(self, child: Child) -> None:
        """Note that a child is initialised (`child.Parent`)."""
        if child.spec.counts is Counts.ALL:
            child.failures = 0
        child.trial = False
        self._tell(EventKind.STARTED, child)
        child.settle(up=True)
        self._wake.set()

    def child_over(self, child: Child, life: Life) -> None:
        """Note that a child has ended (`child.Parent`); what follows is decided in the supervisor's task."""
        # Told here, not where it is decided on: a stop may come first, and no exception may be lost to it.
        kind = EventKind.EXITED if life.ready or life.asked else EventKind.START_FAILED
        self._tell(kind, child, life.exit, asked=life.asked)
        # What ends the program is about to cancel the nursery; nothing may be restarted before that arrives here.
        if life.exit is not None and not (life.exit.error and ends_process(life.exit.error)):
            self._ended.append((child, life))
        self._wake.set()

    def _tell(
        self, kind: EventKind, child: Child, how: Exit | None = None, *, asked: bool = False, delay: float = 0.0
    ) -> None:
        event = Event(
            kind=kind,
            supervisor=self._rules.id,
            child=child.spec.id,
            incarnation=child.incarnation,
            exit=how,
            asked=asked,
            delay=delay,
        )
        tell(self._rules.on_event, event)

"""A child's place under a supervisor, and the requests of other tasks that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from supervisors.child_spec import PERMANENT, TEMPORARY, ChildSpec
from supervisors.intensity import RestartWindow
from supervisors.life import Life
from supervisors.tree import State, TreeNode, adopt


class Request:
    """A call of another task: handled in turn, finished once the child is where the caller wants it."""

    __slots__ = ("act", "done", "error", "up", "withdrawn")

    def __init__(self, act: Callable[[Request], None], *, up: bool) -> None:
        self.act = act
        self.up = up
        self.done = trio.Event()
        self.error: Exception | None = None
        self.withdrawn = False

    def finish(self, error: Exception | None = None) -> None:
        """Let the caller go on, with an error to raise or none."""
        self.error = error
        self.done.set()


class Parent(Protocol):
    """Whom a child's record tells about its life."""

    def child_ready(self, child: Child) -> None:
        """Its life called `started()`."""
        ...

    def child_over(self, child: Child, life: Life) -> None:
        """Its life ended; `child.life` is still that life."""
        ...


@attrs.define(eq=False)
class Child:
    """One child of a supervisor; `life` is None while nothing of it runs."""

    spec: ChildSpec
    parent: Parent
    window: RestartWindow
    life: Life | None = None
    incarnation: int = 0
    starts: int = 0
    failures: int = 0
    """Failed starts in a row, or for `BEFORE_READY` deaths in a row without a stable run between."""
    retry_at: float | None = None
    trial: bool = False
    """Added by `start_child` and not ready yet: a failure forgets it."""
    again: bool = False
    """Asked to stop by `restart_child`: its end is followed by a start."""
    waiting: list[Request] = attrs.Factory(list)

    @property
    def temporary(self) -> bool:
        """Whether it is forgotten when it ends."""
        return self.spec.restart is TEMPORARY

    def restarts_after(self, life: Life) -> bool:
        """Whether this end of a life that had been ready is followed by a restart."""
        return life.exit is not None and (self.spec.restart or PERMANENT).applies_to(life.exit.kind)

    def life_ready(self) -> None:
        """Pass it on (`life.Keeper`)."""
        self.parent.child_ready(self)

    def life_over(self) -> None:
        """Pass it on (`life.Keeper`)."""
        assert self.life is not None, "only a life ends"
        self.parent.child_over(self, self.life)

    def settle(self, error: Exception | None = None, *, up: bool) -> None:
        """Finish the requests that wait for this child to be up (or down), with an error to raise or none."""
        for request in self.waiting:
            if request.up is up:
                request.finish(error)
        self.waiting = [request for request in self.waiting if request.up is not up]

    def node(self) -> TreeNode:
        """Its node in the tree."""
        node = TreeNode(
            id=self.spec.id,
            kind=self.spec.kind,
            state=self._state(),
            restarts=max(0, self.starts - 1),
            incarnation=self.incarnation,
        )
        return adopt(node, self.spec.describe)

    def _state(self) -> State:
        if self.life is None:
            return "stopped" if self.retry_at is None else "restarting"
        if self.life.asked:
            return "stopping"
        return "running" if self.life.ready else "starting"

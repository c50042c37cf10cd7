"""OTP's supervisor as a few synchronous rules: what the real one is compared with (its clock is a number)."""

from __future__ import annotations

import attrs

from supervisors.child_spec import PERMANENT, TEMPORARY, Restart
from supervisors.strategy import Strategy


@attrs.define(eq=False)
class ModelChild:
    name: str
    restart: Restart
    up: bool = False


class Model:
    """Writes the same log as `stage.Stage`. A start fails while `failing[name]` is above 0."""

    def __init__(self, children, strategy, most, period):
        self.children = [ModelChild(name, restart) for name, restart in children]
        self.strategy = strategy
        self.most = most
        self.period = period
        self.now = 0.0
        self.restarts = []
        self.failing = {}
        self.log = []
        self.over = False
        for child in self.children:
            self._start(child)

    @property
    def alive(self):
        return [child.name for child in self.children if child.up]

    @property
    def stopped(self):
        return [child.name for child in self.children if not child.up]

    def exit(self, name, how):
        child = self._find(name)
        self._end(child)
        abnormal = how == "raise"
        if child.restart is PERMANENT or (child.restart is Restart.TRANSIENT and abnormal):
            self._restart(child)

    def terminate(self, name):
        child = self._find(name)
        if child.up:
            self._end(child)

    def cycle(self, name):
        child = self._find(name)
        if child.up:
            self._end(child)
        if not self._start(child):
            if child.restart is TEMPORARY:
                return
            self._restart(child)
        elif child not in self.children:
            self.children.insert(self._place, child)

    def start(self, name, restart):
        child = ModelChild(name, restart)
        if self._start(child):
            self.children.append(child)

    def delete(self, name):
        self.children.remove(self._find(name))

    def stop(self):
        self.over = True
        for child in reversed(list(self.children)):
            if child.up:
                self._end(child)

    def _find(self, name):
        return next(child for child in self.children if child.name == name)

    def _start(self, child):
        if self.failing.get(child.name, 0) > 0:
            self.failing[child.name] -= 1
            self.log.append(f"!{child.name}")
            return False
        self.log.append(f"+{child.name}")
        child.up = True
        return True

    def _end(self, child):
        self.log.append(f"-{child.name}")
        child.up = False
        if child.restart is TEMPORARY:
            self._place = self.children.index(child)
            self.children.remove(child)

    def _restart(self, child):
        while child is not None:
            self.restarts = [at for at in self.restarts if self.now - at <= self.period] + [self.now]
            if len(self.restarts) > self.most:
                self.stop()
                return
            child = self._restart_once(child)

    def _restart_once(self, child):
        """Return the child that failed to start, which is restarted next, or None."""
        if self.strategy is Strategy.ONE_FOR_ONE:
            return None if self._start(child) else child
        first = 0 if self.strategy is Strategy.ONE_FOR_ALL else self.children.index(child)
        for sibling in reversed(self.children[first:]):
            if sibling.up:
                self._end(sibling)
        for sibling in self.children[first:]:
            if not self._start(sibling):
                return sibling
        return None

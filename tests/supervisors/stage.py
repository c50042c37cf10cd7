"""Children that log what happens to them and do what they are told: the actors of the supervision tests."""

from __future__ import annotations

import contextlib
import math

import trio

from supervisors.child_spec import ChildSpec
from supervisors.exits import Escalated, Shutdown, StartFailed


class BrokenError(Exception):
    """What a child raises when it is told to break."""


class Stage:
    """Makes specs. `log` gets `+id` when a child is ready, `!id` when it fails to start, `-id` when it has ended."""

    def __init__(self):
        self.log = []
        self.events = []
        self.attempts = []
        self.failing = {}
        """How many of the next starts of an id fail."""
        self.slow = {}
        """Seconds an id takes until it is ready."""
        self.stubborn = {}
        """Seconds an id ignores its cancellation."""
        self.unstoppable = []
        self._cues = {}
        self.alive = []
        self.present = set()
        """Ids of which anything runs, from the first step of a start to the last of an end."""
        self.raised = []
        self._ready = trio.Event()

    def spec(self, name, **settings):
        async def start(status):
            assert name not in self.present, "an id never lives twice"
            self.present.add(name)
            try:
                await live(status)
            finally:
                self.present.remove(name)

        async def live(status):
            self.attempts.append((name, trio.current_time()))
            try:
                if name in self.slow:
                    await trio.sleep(self.slow[name])
                self._try(name)
            except BaseException:
                self.log.append(f"!{name}")
                raise
            cue = self._cues[name] = Cue()
            self.log.append(f"+{name}")
            self.alive.append(name)
            self._ready.set()
            status.started()
            try:
                try:
                    await cue.given.wait()
                except trio.Cancelled:
                    if name in self.stubborn:
                        with trio.CancelScope(shield=True):
                            await trio.sleep(self.stubborn[name])
                    raise
                if cue.error is not None:
                    self.raised.append(cue.error)
                    raise cue.error
            finally:
                self.log.append(f"-{name}")
                self.alive.remove(name)

        return ChildSpec(name, start, **settings)

    def _try(self, name):
        if self.failing.get(name, 0) > 0:
            self.failing[name] -= 1
            self.raised.append(BrokenError(name))
            raise self.raised[-1]

    def specs(self, names, **settings):
        return [self.spec(name, **settings) for name in names]

    def cue(self, name, how="raise"):
        """Have the living child end: by return, shutdown, raise, or with the exception given."""
        cue = self._cues[name]
        assert not cue.given.is_set(), "a child ends once"
        cue.error = {"return": None, "shutdown": Shutdown("told to"), "raise": BrokenError(name)}.get(how, how)
        cue.given.set()

    def open_cue(self, name):
        """Whether the living child has not been told to end yet."""
        return not self._cues[name].given.is_set()

    async def until_alive(self, name):
        """Let time pass until a child is ready again."""
        while name not in self.alive:
            self._ready = trio.Event()
            await self._ready.wait()

    async def end(self, name, how="raise"):
        """Cue a child and wait until what follows from it without any time passing has happened."""
        self.cue(name, how)
        await trio.testing.wait_all_tasks_blocked()

    def took(self):
        """Return the log since the last call, as one string."""
        taken, self.log[:] = " ".join(self.log), []
        return taken

    def told(self, *kinds):
        return [event for event in self.events if event.kind in kinds]

    @property
    def ports(self):
        """The settings that connect a supervisor to this stage."""
        return {"on_event": self.events.append, "on_unstoppable": self.unstoppable.append}


class Cue:
    def __init__(self):
        self.given = trio.Event()
        self.error = None


class Performance:
    """A supervisor that runs, how it ended, and the way to end it."""

    def __init__(self):
        self.error = None
        self.up = trio.Event()
        self.over = trio.Event()
        self.scope = trio.CancelScope()

    def started(self, value=None):  # noqa: ARG002
        self.up.set()

    async def stop(self):
        self.scope.cancel()
        await self.over.wait()


@contextlib.asynccontextmanager
async def performing(supervisor):
    """Run a supervisor while the block runs; stop it at the end."""
    performance = Performance()

    async def body():
        try:
            with performance.scope:
                await supervisor.run(performance)
        except (Escalated, StartFailed) as error:
            performance.error = error
        finally:
            performance.up.set()
            performance.over.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(body)
        await performance.up.wait()
        yield performance
        performance.scope.cancel()


FOREVER = math.inf

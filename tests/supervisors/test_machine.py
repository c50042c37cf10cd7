"""B7: on random children, strategies and sequences of faults, the supervisor does what OTP's rules say, in their order."""

from __future__ import annotations

import contextlib
import string

import pytest
import trio
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from supervisors.backoff import Schedule
from supervisors.child_spec import PERMANENT, TEMPORARY, TRANSIENT
from supervisors.exits import Escalated, NotRunning, StartFailed
from supervisors.intensity import Intensity
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.model import Model
from tests.supervisors.stage import Stage

RESTARTS = st.sampled_from([PERMANENT, TRANSIENT, TEMPORARY])
STEPS = st.one_of(
    st.tuples(st.just("exit"), st.integers(0, 9), st.sampled_from(["return", "shutdown", "raise"])),
    st.tuples(st.just("terminate"), st.integers(0, 9)),
    st.tuples(st.just("cycle"), st.integers(0, 9)),
    st.tuples(st.just("start"), RESTARTS, st.booleans()),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("fail"), st.integers(0, 9), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 5.0, 10.0, 30.0])),
)
SCENES = st.fixed_dictionaries(
    {
        "restarts": st.lists(RESTARTS, max_size=6),
        "strategy": st.sampled_from(list(Strategy)),
        "most": st.integers(0, 6),
        "steps": st.lists(STEPS, max_size=50),
    }
)


class Duel:
    """The supervisor and the model, given the same steps."""

    def __init__(self, scene):
        names = string.ascii_letters
        first = [(names[place], restart) for place, restart in enumerate(scene["restarts"])]
        self.unused = iter(names[len(first) :])
        self.stage = Stage()
        self.model = Model(first, scene["strategy"], scene["most"], 10.0)
        specs = [self.stage.spec(name, restart=restart) for name, restart in first]
        self.sup = Supervisor(
            "s",
            specs,
            scene["strategy"],
            Intensity(scene["most"], 10.0),
            backoff=Schedule((0.0,)),
            **self.stage.ports,
        )
        self.error = None
        self.over = False

    async def run(self):
        try:
            await self.sup.run()
        except Escalated as error:
            self.error = error
        finally:
            self.over = True

    async def step(self, what, *details):
        await getattr(self, what)(*details)
        await wait_all_tasks_blocked()
        self.compare()

    def compare(self):
        stage, model = self.stage, self.model
        assert stage.log == model.log
        assert sorted(stage.alive) == sorted(model.alive)
        assert self.over == model.over
        if not model.over:
            shown = {child.id: child.state for child in self.sup.describe().children}
            assert list(shown) == [child.name for child in model.children]
            assert shown == {child.name: "running" if child.up else "stopped" for child in model.children}
        assert stage.unstoppable == []

    def pick(self, number, names):
        return names[number % len(names)] if names else None

    async def exit(self, number, how):
        name = self.pick(number, self.model.alive)
        if name is not None:
            self.model.exit(name, how)
            self.stage.cue(name, how)

    async def request(self, call, name):
        with contextlib.suppress(NotRunning, StartFailed):
            await call(name)

    async def terminate(self, number):
        name = self.pick(number, self.model.alive)
        if name is not None:
            self.model.terminate(name)
            await self.request(self.sup.terminate_child, name)

    async def cycle(self, number):
        name = self.pick(number, [child.name for child in self.model.children])
        if name is not None:
            self.model.cycle(name)
            await self.request(self.sup.restart_child, name)

    async def start(self, restart, fails):
        name = next(self.unused, None)
        if name is not None:
            self.stage.failing[name] = self.model.failing[name] = int(fails)
            self.model.start(name, restart)
            await self.request(self.sup.start_child, self.stage.spec(name, restart=restart))

    async def delete(self, number):
        name = self.pick(number, self.model.stopped)
        if name is not None:
            self.model.delete(name)
            await self.request(self.sup.delete_child, name)

    async def fail(self, number, times):
        name = self.pick(number, [child.name for child in self.model.children])
        if name is not None:
            self.stage.failing[name] = self.model.failing[name] = times

    async def wait(self, seconds):
        self.model.now += seconds
        self.clock.jump(seconds)

    async def play(self, steps, clock):
        self.clock = clock
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run)
            await wait_all_tasks_blocked()
            self.compare()
            for step in steps:
                await self.step(*step)
                if self.over:
                    assert self.error is not None
                    event("gave up")
                    break
            else:
                self.model.stop()
                nursery.cancel_scope.cancel()
        self.compare()


def play(scene):
    clock = MockClock()
    trio.run(Duel(scene).play, scene["steps"], clock, clock=clock)


@given(scene=SCENES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_supervisor_and_model_agree(scene):
    play(scene)


@pytest.mark.slow
@given(scene=SCENES)
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_supervisor_and_model_agree_at_length(scene):
    play(scene)

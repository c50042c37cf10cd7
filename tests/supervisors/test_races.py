"""Things that happen at the same moment, in any order the scheduler likes: what must hold whoever comes first."""

from __future__ import annotations

import abc
import string
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from supervisors.child_spec import PERMANENT, TEMPORARY, TRANSIENT, Counts
from supervisors.dynamic import DynamicSupervisor
from supervisors.events import EventKind
from supervisors.exits import Escalated, Refused, StartFailed
from supervisors.intensity import Intensity
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import Stage

DEEDS = st.one_of(
    st.tuples(st.just("raise"), st.integers(0, 5)),
    st.tuples(st.just("return"), st.integers(0, 5)),
    st.tuples(st.just("fail"), st.integers(0, 5)),
    st.tuples(st.just("stop"), st.integers(0, 5)),
    st.tuples(st.just("cycle"), st.integers(0, 5)),
    st.tuples(st.just("start"), st.integers(0, 5)),
    st.tuples(st.just("ready"), st.integers(0, 5)),
)
SCENES = st.fixed_dictionaries(
    {
        "restarts": st.lists(st.sampled_from([PERMANENT, TRANSIENT, TEMPORARY]), min_size=2, max_size=6),
        "counts": st.sampled_from(list(Counts)),
        "strategy": st.sampled_from(list(Strategy)),
        "most": st.sampled_from([1, 4, 10**6]),
        "slow": st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=6, max_size=6),
        "stubborn": st.lists(st.sampled_from([0.0, 0.5, 3.0, 20.0]), min_size=6, max_size=6),
        "moments": st.lists(
            st.tuples(st.sampled_from([0.0, 0.1, 1.0, 7.0]), st.lists(DEEDS, min_size=1, max_size=5)), max_size=15
        ),
        "impatience": st.sampled_from([0.3, 1000.0]),
    }
)


class Scene(abc.ABC):
    """Plays moments: each a handful of deeds done without letting anything run between them."""

    def __init__(self, plan):
        self.plan = plan
        self.stage = Stage()
        self.names = string.ascii_lowercase[: len(plan["restarts"])]
        self.stage.slow = dict(zip(self.names, plan["slow"], strict=False))
        self.stage.stubborn = {name: n for name, n in zip(self.names, plan["stubborn"], strict=False) if n}
        self.open_requests = 0
        self.sup: Any = None
        self.over = False
        self.gave_up = False

    @abc.abstractmethod
    def calls(self, deed, name, place):
        """Return the call that a deed stands for, with its arguments."""

    def spec(self, place):
        place %= len(self.names)
        restart = self.plan["restarts"][place]
        return self.stage.spec(self.names[place], restart=restart, counts=self.plan["counts"])

    async def keep(self, run):
        try:
            await run()
        except (Escalated, StartFailed):
            self.gave_up = True
        finally:
            self.over = True

    async def request(self, call, *args):
        self.open_requests += 1
        try:
            with trio.move_on_after(self.plan["impatience"]):
                await call(*args)
        except (Refused, StartFailed):
            pass
        finally:
            self.open_requests -= 1

    def do(self, nursery, deed, place):
        name = self.names[place % len(self.names)]
        if deed in {"raise", "return"}:
            if name in self.stage.alive and self.stage.open_cue(name):
                self.stage.cue(name, deed)
        elif deed == "fail":
            self.stage.failing[name] = 2
        else:
            nursery.start_soon(self.request, *self.calls(deed, name, place))

    async def play(self):
        async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
            nursery.start_soon(self.keep, self.sup.run)
            await wait_all_tasks_blocked()
            for seconds, deeds in self.plan["moments"]:
                for deed, place in deeds:
                    self.do(callers, deed, place)
                await trio.sleep(seconds)
            nursery.cancel_scope.cancel()
        self.check()

    def check(self):
        stage = self.stage
        assert self.over
        assert stage.alive == []
        assert not stage.present
        assert self.open_requests == 0
        told = [
            event.exit.error
            for event in stage.told(EventKind.EXITED, EventKind.START_FAILED)
            if event.exit.error is not None
        ]
        assert len(told) == len({id(error) for error in told}), "told once each"
        assert {id(error) for error in told} == {id(error) for error in stage.raised}, "none lost"


class Static(Scene):
    def __init__(self, plan):
        super().__init__(plan)
        self.sup = Supervisor(
            "s",
            [self.spec(place) for place in range(len(self.names))],
            plan["strategy"],
            Intensity(plan["most"], 10.0),
            **self.stage.ports,
        )

    def calls(self, deed, name, place):
        return {
            "stop": (self.sup.terminate_child, name),
            "cycle": (self.sup.restart_child, name),
            "start": (self.sup.start_child, self.spec(place)),
            "ready": (self.sup.delete_child, name),
        }[deed]


class Dynamic(Scene):
    def __init__(self, plan):
        super().__init__(plan)
        self.sup = DynamicSupervisor("d", Intensity(plan["most"], 10.0), max_children=5, **self.stage.ports)

    def calls(self, deed, name, place):
        async def start():
            self.sup.start_child(self.spec(place))
            await trio.lowlevel.checkpoint()

        async def ask():
            self.sup.request_stop(name)
            await trio.lowlevel.checkpoint()

        return {
            "stop": (self.sup.stop_child, name),
            "cycle": (ask,),
            "start": (start,),
            "ready": (self.sup.start_child_ready, self.spec(place)),
        }[deed]


@pytest.mark.parametrize("kind", [Static, Dynamic])
@given(plan=SCENES)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_order_of_events_loses_an_exception_a_child_or_a_request(kind, plan):
    trio.run(kind(plan).play, clock=MockClock(autojump_threshold=0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Static, Dynamic])
@given(plan=SCENES)
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_order_of_events_loses_anything_at_length(kind, plan):
    trio.run(kind(plan).play, clock=MockClock(autojump_threshold=0))

import math

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from supervisors.child_spec import TRANSIENT
from supervisors.events import EventKind
from supervisors.exits import Escalated, ExitKind
from supervisors.intensity import Intensity, RestartWindow
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import BrokenError, performing


@pytest.mark.parametrize(("sixth", "gives_up"), [(29.9, True), (30.0, True), (30.1, False)])
async def test_the_sixth_death_within_the_period_gives_up(stage, autojump_clock, sixth, gives_up):
    # B3: 5 restarts in 30 seconds are allowed.
    sup = Supervisor("s", stage.specs("ab"), intensity=Intensity(5, 30.0), **stage.ports)
    async with performing(sup) as performance:
        began = trio.current_time()
        for _ in range(5):
            await stage.end("a")
        stage.took()
        await trio.sleep_until(began + sixth)
        await stage.end("a")
        assert performance.over.is_set() == gives_up
        assert stage.took() == ("-a -b" if gives_up else "-a +a")


async def test_a_crash_loop_is_started_six_times_however_well_it_starts(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("ab"), intensity=Intensity(5, 60.0), **stage.ports)
    async with performing(sup) as performance:
        while not performance.over.is_set():
            await trio.sleep(0.2)
            await stage.end("a")
        assert [name for name, _ in stage.attempts].count("a") == 6
        assert isinstance(performance.error, Escalated)
        assert (performance.error.supervisor, performance.error.child) == ("s", "a")
        assert isinstance(performance.error.__cause__, BrokenError)
        assert [event.child for event in stage.told(EventKind.ESCALATED)] == ["a"]


async def test_a_stable_run_longer_than_the_period_starts_again_from_zero(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), intensity=Intensity(5, 60.0), **stage.ports)
    async with performing(sup) as performance:
        for _ in range(3):
            for _ in range(5):
                await stage.end("a")
            await trio.sleep(60.1)
        assert not performance.over.is_set()


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_escalation_stops_all_children_right_to_left_then_the_supervisor(stage, autojump_clock, strategy):
    stage.stubborn = {"c": 1.0}
    sup = Supervisor("s", stage.specs("abcd"), strategy, Intensity(0, 5.0), **stage.ports)
    async with performing(sup) as performance:
        stage.took()
        await stage.end("b")
        await performance.over.wait()
        assert stage.took() == "-b -d -c -a"
        assert performance.error.last.kind is ExitKind.ABNORMAL


async def test_the_intensity_is_the_supervisors_not_the_childs(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("abc"), intensity=Intensity(2, 30.0), **stage.ports)
    async with performing(sup) as performance:
        for name in "abc":
            await stage.end(name)
        assert performance.over.is_set()


async def test_exits_without_a_restart_do_not_count(stage, autojump_clock):
    sup = Supervisor("s", [stage.spec("a", restart=TRANSIENT)], intensity=Intensity(0, 5.0), **stage.ports)
    async with performing(sup) as performance:
        for _ in range(4):
            await stage.end("a", "return")
            await sup.restart_child("a")
        assert not performance.over.is_set()


async def test_a_permanent_child_that_only_returns_escalates_without_a_cause(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), intensity=Intensity(0, 5.0), **stage.ports)
    async with performing(sup) as performance:
        await stage.end("a", "return")
        assert performance.error.__cause__ is None
        assert performance.error.last.kind is ExitKind.NORMAL


async def test_nested_intensities_multiply(stage, autojump_clock):
    inner = Supervisor("inner", stage.specs("x"), intensity=Intensity(2, 60.0), **stage.ports)
    outer = Supervisor("outer", [inner.as_child()], intensity=Intensity(1, 60.0), **stage.ports)
    async with performing(outer) as performance:
        while not performance.over.is_set():
            await stage.end("x")
        assert len(stage.attempts) == 3 * 2


async def test_each_run_has_a_window_of_its_own(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), intensity=Intensity(1, 60.0), **stage.ports)
    for _ in range(3):
        async with performing(sup) as performance:
            await stage.end("a")
            assert not performance.over.is_set()


@pytest.mark.parametrize(("most", "period"), [(-1, 5.0), (1, 0.0), (1, -2.0), (1, math.nan)])
def test_impossible_intensities_are_refused(most, period):
    with pytest.raises(ValueError, match="intensity"):
        Intensity(most, period)


def test_the_defaults_are_otps():
    assert Intensity() == Intensity(1, 5.0)


def test_an_infinite_period_counts_for_ever():
    window = RestartWindow(Intensity(2, math.inf))
    assert [window.add(at) for at in (0.0, 1e9, 1e12)] == [True, True, False]
    window.clear()
    assert window.add(1e12)


@given(
    gaps=st.lists(st.floats(0, 20, allow_subnormal=False), max_size=60),
    most=st.integers(0, 6),
    period=st.floats(0.5, 30),
)
def test_the_window_agrees_with_counting(gaps, most, period):
    window = RestartWindow(Intensity(most, period))
    times, now = [], 0.0
    for gap in gaps:
        now += gap
        times.append(now)
        assert window.add(now) == (sum(now - at <= period for at in times) <= most)

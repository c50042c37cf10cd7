import itertools

import pytest
import trio

from supervisors.backoff import Backoff
from supervisors.child_spec import Counts
from supervisors.events import EventKind
from supervisors.exits import Escalated
from supervisors.intensity import Intensity
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import FOREVER, BrokenError, performing

ROOT = Intensity(5, 60.0)


def root(stage, names, **settings):
    specs = stage.specs(names, counts=Counts.BEFORE_READY)
    return Supervisor("root", specs, Strategy.ONE_FOR_ONE, ROOT, **stage.ports, **settings)


async def test_deaths_after_ready_never_give_up_and_wait_longer_up_to_a_second(stage, autojump_clock):
    async with performing(root(stage, "ab")) as performance:
        for _ in range(100):
            await stage.until_alive("a")
            await stage.end("a")
        await trio.sleep(2.0)
        assert not performance.over.is_set()
        assert stage.alive == ["b", "a"]
        delays = [event.delay for event in stage.told(EventKind.RESTARTING)]
        assert delays[:7] == [0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0]
        assert max(delays) == 1.0


async def test_a_stable_run_longer_than_the_period_ends_the_row(stage, autojump_clock):
    async with performing(root(stage, "a")):
        for run, delay in ((1.0, 0.0), (1.0, 0.05), (60.0, 0.1), (60.5, 0.0), (1.0, 0.05)):
            await trio.sleep(run)
            await stage.end("a")
            assert stage.told(EventKind.RESTARTING)[-1].delay == delay
            await trio.sleep(delay)
            await trio.testing.wait_all_tasks_blocked()


async def test_a_long_start_is_no_stable_run(stage, autojump_clock):
    stage.slow = {"a": 100.0}
    async with performing(root(stage, "a")):
        for delay in (0.0, 0.05, 0.1):
            await trio.sleep(1.0)
            await stage.end("a")
            assert stage.told(EventKind.RESTARTING)[-1].delay == delay
            await stage.until_alive("a")


async def test_a_child_that_cannot_start_gives_up_with_the_reason_after_growing_delays(stage, autojump_clock):
    stage.failing = {"b": FOREVER}
    with pytest.raises(Escalated) as caught:
        await root(stage, "abc").run()
    assert stage.took() == "+a !b !b !b !b !b !b -a"
    assert isinstance(caught.value.__cause__, BrokenError)
    assert "BrokenError: b" in str(caught.value)
    times = [at for name, at in stage.attempts if name == "b"]
    gaps = [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]
    assert gaps == [0.0, 0.05, 0.1, 0.2, 0.5]


async def test_a_child_that_starts_at_the_last_try_keeps_the_service_up(stage, autojump_clock):
    stage.failing = {"b": 5}
    async with performing(root(stage, "abc")):
        assert stage.took() == "+a !b !b !b !b !b +b +c"


async def test_failed_restarts_count_for_that_child_alone(stage, autojump_clock):
    async with performing(root(stage, "ab")) as performance:
        for name in "abab":
            stage.failing = {name: 2}
            await stage.end(name)
            await trio.sleep(5.0)
        assert not performance.over.is_set()
        stage.failing = {"a": FOREVER}
        await stage.end("a")
        await performance.over.wait()
        assert performance.error.child == "a"


async def test_old_failed_starts_are_forgotten(stage, autojump_clock):
    async with performing(root(stage, "a")) as performance:
        for _ in range(5):
            stage.failing = {"a": 4}
            await stage.end("a")
            await trio.sleep(70.0)
        assert not performance.over.is_set()


async def test_elders_are_looked_after_while_a_younger_child_struggles_to_start(stage, autojump_clock):
    stage.slow = {"b": FOREVER}
    sup = root(stage, "ab")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sup.run)
        await trio.sleep(1.0)
        await stage.end("a")
        assert stage.took() == "+a -a +a"
        nursery.cancel_scope.cancel()


async def test_elders_restarts_run_while_a_younger_child_waits_for_its_next_try(stage, autojump_clock):
    stage.failing = {"b": 3}
    sup = root(stage, "ab", backoff=Backoff(first=10.0, factor=1.0, cap=10.0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sup.run)
        await trio.sleep(1.0)
        await stage.end("a")
        await trio.sleep(31.0)
        assert stage.took() == "+a !b -a !b +a !b +b"
        nursery.cancel_scope.cancel()


async def test_a_group_strategy_waits_too_and_restarts_the_group(stage, autojump_clock):
    specs = stage.specs("abc", counts=Counts.BEFORE_READY)
    sup = Supervisor("root", specs, Strategy.REST_FOR_ONE, ROOT, **stage.ports)
    async with performing(sup):
        stage.took()
        await stage.end("b")
        assert stage.took() == "-b -c +b +c"
        await stage.end("b")
        assert stage.took() == "-b"
        await trio.sleep(0.06)
        assert stage.took() == "-c +b +c"


async def test_a_group_strategy_retries_first_starts_in_order(stage, autojump_clock):
    stage.failing = {"b": 2}
    specs = stage.specs("abc", counts=Counts.BEFORE_READY)
    sup = Supervisor("root", specs, Strategy.ONE_FOR_ALL, ROOT, **stage.ports)
    async with performing(sup):
        assert stage.took() == "+a !b !b +b +c"


async def test_both_policies_live_side_by_side(stage, autojump_clock):
    specs = [stage.spec("edge", counts=Counts.BEFORE_READY), stage.spec("admin")]
    sup = Supervisor("root", specs, Strategy.ONE_FOR_ONE, Intensity(1, 60.0), **stage.ports)
    async with performing(sup) as performance:
        for _ in range(4):
            await stage.end("edge")
            await trio.sleep(2.0)
        await stage.end("admin")
        assert not performance.over.is_set()
        await stage.end("admin")
        await performance.over.wait()
        assert performance.error.child == "admin"

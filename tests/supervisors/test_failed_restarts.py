import itertools

import pytest
import trio

from supervisors.backoff import Schedule
from supervisors.child_spec import TEMPORARY, TRANSIENT, ChildSpec
from supervisors.events import EventKind
from supervisors.exits import Shutdown
from supervisors.intensity import Intensity
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import FOREVER, performing

PATIENT = Intensity(10**9, 1.0)


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_stop_wins_at_once_over_a_child_that_fails_to_restart_for_ever(stage, autojump_clock, strategy):
    # B4, with the clock standing still while the stop goes through.
    sup = Supervisor("s", stage.specs("abc"), strategy, PATIENT, **stage.ports)
    async with performing(sup) as performance:
        stage.failing = {"b": FOREVER}
        await stage.end("b")
        await trio.sleep(100.3)
        began = trio.current_time()
        attempts = len(stage.attempts)
        await performance.stop()
        assert trio.current_time() == began
        assert len(stage.attempts) == attempts
        assert performance.error is None


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_stop_gets_in_even_where_failed_restarts_are_tried_again_without_delay(stage, autojump_clock, strategy):
    sup = Supervisor("s", stage.specs("abc"), strategy, PATIENT, backoff=Schedule((0.0,)), **stage.ports)
    async with performing(sup) as performance:
        stage.failing = {"b": FOREVER}
        stage.cue("b")
        for _ in range(50):
            await trio.lowlevel.checkpoint()
        before = sum(name == "b" for name, _ in stage.attempts)
        assert before > 5
        performance.scope.cancel()
        await performance.over.wait()
        # One attempt may be on its way when the stop is asked for; the next one is never made.
        assert sum(name == "b" for name, _ in stage.attempts) <= before + 1


async def test_failed_restarts_are_no_busy_loop(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), Strategy.ONE_FOR_ONE, PATIENT, **stage.ports)
    async with performing(sup):
        stage.failing = {"a": FOREVER}
        await stage.end("a")
        await trio.sleep(60.0)
        assert 60 <= len(stage.attempts) <= 70
        gaps = [round(later - earlier, 3) for (_, earlier), (_, later) in itertools.pairwise(stage.attempts[1:9])]
        assert gaps == [0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0]


async def test_every_try_counts_and_the_last_one_gives_up(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("ab"), intensity=Intensity(3, 30.0), **stage.ports)
    async with performing(sup) as performance:
        stage.failing = {"a": FOREVER}
        await stage.end("a")
        await performance.over.wait()
        assert stage.took() == "+a +b -a !a !a !a -b"
        assert performance.error.child == "a"


async def test_a_success_ends_the_row_of_delays(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), Strategy.ONE_FOR_ONE, PATIENT, **stage.ports)
    async with performing(sup):
        for _ in range(3):
            stage.failing = {"a": 3}
            began = trio.current_time()
            await stage.end("a")
            await trio.sleep(0.2)
            assert stage.alive == ["a"]
            assert stage.attempts[-1][1] - began == pytest.approx(0.15)


async def test_a_failed_restart_is_tried_again_whatever_the_exit_was(stage, autojump_clock):
    starts = []

    async def child(status):
        starts.append(trio.current_time())
        if len(starts) == 2:
            raise Shutdown
        if len(starts) == 3:
            return
        status.started()
        await trio.sleep(1.0)
        if len(starts) == 1:
            raise OSError

    spec = ChildSpec("a", child, restart=TRANSIENT)
    sup = Supervisor("s", [spec], Strategy.ONE_FOR_ONE, PATIENT, **stage.ports)
    async with performing(sup):
        await trio.sleep(30.0)
    assert len(starts) == 4
    assert len(stage.told(EventKind.START_FAILED)) == 2


async def test_a_temporary_child_that_fails_under_restart_child_is_forgotten(stage, autojump_clock):
    sup = Supervisor("s", [stage.spec("a"), stage.spec("t", restart=TEMPORARY)], **stage.ports)
    async with performing(sup):
        stage.failing = {"t": 1}
        with pytest.raises(Exception, match="'t'"):
            await sup.restart_child("t")
        assert [child.id for child in sup.describe().children] == ["a"]


async def test_a_sibling_that_dies_while_a_group_restart_waits_is_served_first(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("abc"), Strategy.REST_FOR_ONE, PATIENT, backoff=Schedule((10.0,)), **stage.ports)
    async with performing(sup):
        stage.failing = {"b": 1}
        stage.took()
        await stage.end("b")
        assert stage.took() == "-b -c !b"
        await trio.sleep(1.0)
        await stage.end("a")
        assert stage.took() == "-a +a +b +c"
        await trio.sleep(60.0)
        assert stage.took() == ""


@pytest.mark.parametrize("phase", ["stopping", "starting"])
async def test_a_retry_that_falls_due_while_another_group_restarts_waits_for_it(stage, autojump_clock, phase):
    sup = Supervisor("s", stage.specs("abc"), Strategy.REST_FOR_ONE, PATIENT, backoff=Schedule((2.0,)), **stage.ports)
    async with performing(sup):
        stage.failing = {"b": 1}
        await stage.end("b")
        await sup.restart_child("c")
        await sup.start_child(stage.spec("d"))
        stage.took()
        if phase == "stopping":
            stage.stubborn = {"d": 4.0}
        else:
            stage.slow = {"c": 4.0}
        await trio.sleep(1.0)
        await stage.end("c")
        await trio.sleep(2.0)
        assert stage.took() == {"stopping": "-c", "starting": "-c -d"}[phase]
        # The clock only moves on while nobody is busy: this point is not reached by a supervisor that spins.
        stage.stubborn, stage.slow = {}, {}
        await trio.sleep(9.0)
        assert stage.took() == {"stopping": "-d +c +d -d -c +b +c +d", "starting": "+c +d -d -c +b +c +d"}[phase]


async def test_a_hanging_restart_does_not_keep_a_stop_out(stage, autojump_clock):
    for strategy in Strategy:
        stage.slow = {}
        sup = Supervisor("s", stage.specs("abc"), strategy, PATIENT, **stage.ports)
        async with performing(sup) as performance:
            stage.slow = {"b": FOREVER}
            await stage.end("b")
            await trio.sleep(1000.0)
            began = trio.current_time()
            await performance.stop()
            assert trio.current_time() == began


async def test_scheduling_rounds_between_stop_and_end_are_few(stage):
    rounds = Rounds()
    trio.lowlevel.add_instrument(rounds)
    sup = Supervisor("s", stage.specs("abc"), Strategy.ONE_FOR_ALL, PATIENT, **stage.ports)
    async with performing(sup) as performance:
        stage.failing = {"b": FOREVER}
        await stage.end("b")
        rounds.count = 0
        await performance.stop()
        assert rounds.count < 25, "three children, each a few rounds"
    trio.lowlevel.remove_instrument(rounds)


class Rounds(trio.abc.Instrument):
    def __init__(self):
        self.count = 0

    def before_io_wait(self, timeout):  # noqa: ARG002
        self.count += 1

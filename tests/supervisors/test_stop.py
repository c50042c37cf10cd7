import os
import subprocess
import sys
import textwrap
import time

import pytest
import trio

from supervisors import exits
from supervisors.child_spec import ChildSpec
from supervisors.events import EventKind
from supervisors.exits import NotRunning
from supervisors.intensity import Intensity
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import FOREVER, BrokenError, performing


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_children_stop_right_to_left_each_gone_before_the_next_is_asked(stage, autojump_clock, strategy):
    stage.stubborn = {"c": 2.0, "b": 1.0}
    async with performing(Supervisor("s", stage.specs("abc"), strategy, **stage.ports)) as performance:
        stage.took()
        began = trio.current_time()
        await performance.stop()
        assert stage.took() == "-c -b -a"
        assert trio.current_time() - began == pytest.approx(3.0)
        assert stage.unstoppable == []


async def test_a_child_within_its_shutdown_time_is_waited_for(stage, autojump_clock):
    stage.stubborn = {"a": 4.9}
    async with performing(Supervisor("s", stage.specs("a"), **stage.ports)) as performance:
        began = trio.current_time()
        await performance.stop()
        assert trio.current_time() - began == pytest.approx(4.9)
    assert stage.unstoppable == []


async def test_an_infinite_shutdown_time_is_waited_out(stage, autojump_clock):
    stage.stubborn = {"a": 100_000.0}
    specs = [stage.spec("a", shutdown=FOREVER)]
    async with performing(Supervisor("s", specs, **stage.ports)) as performance:
        await performance.stop()
    assert stage.unstoppable == []


async def test_a_child_that_outlives_its_shutdown_time_is_reported_then_and_once(stage, autojump_clock):
    stage.stubborn = {"b": 30.0}
    reported = []
    sup = Supervisor(
        "s",
        stage.specs("abc"),
        on_event=stage.events.append,
        on_unstoppable=lambda child: reported.append((child, trio.current_time())),
    )
    async with performing(sup) as performance:
        began = trio.current_time()
        await performance.stop()
        assert [child for child, _ in reported] == ["b"]
        assert reported[0][1] - began == pytest.approx(5.0)
        assert trio.current_time() - began == pytest.approx(30.0)
    # The rest is stopped in the meantime: a hook that returns must not hold up the others.
    assert stage.took() == "+a +b +c -c -a -b"
    assert [event.child for event in stage.told(EventKind.UNSTOPPABLE)] == ["b"]


async def test_an_unstoppable_child_is_never_started_again_while_its_task_lives(stage, autojump_clock):
    stage.stubborn = {"c": 20.0}
    sup = Supervisor("s", stage.specs("abc"), Strategy.REST_FOR_ONE, **stage.ports)
    async with performing(sup):
        stage.took()
        await stage.end("b")
        await trio.sleep(19.0)
        assert stage.unstoppable == ["c"]
        assert stage.took() == "-b"
        assert [child.state for child in sup.describe().children] == ["running", "stopped", "stopping"]
        await trio.sleep(2.0)
        assert stage.took() == "-c +b +c"


async def test_terminating_and_restarting_a_stubborn_child_waits_for_its_end(stage, autojump_clock):
    stage.stubborn = {"a": 20.0}
    sup = Supervisor("s", stage.specs("ab"), **stage.ports)
    async with performing(sup):
        began = trio.current_time()
        await sup.restart_child("a")
        assert trio.current_time() - began == pytest.approx(20.0)
        assert stage.unstoppable == ["a"]
        assert stage.took() == "+a +b -a +a"


async def test_a_stop_during_a_childs_start_stops_that_child_first(stage, autojump_clock):
    stage.slow = {"b": FOREVER}
    sup = Supervisor("s", stage.specs("abc"), **stage.ports)
    with trio.move_on_after(3):
        await sup.run()
    assert stage.took() == "+a !b -a"


async def test_a_stop_before_the_first_child_ran_never_calls_it(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("abc"), **stage.ports)
    with trio.CancelScope() as scope:
        scope.cancel()
        await sup.run()
    assert stage.attempts == []


async def test_a_stop_in_the_middle_of_a_group_restart_takes_what_is_up_from_the_right(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("abcde"), Strategy.ONE_FOR_ALL, **stage.ports)
    async with performing(sup) as performance:
        stage.slow = {"c": 10.0}
        stage.took()
        await stage.end("d")
        await trio.sleep(5.0)
        assert stage.took() == "-d -e -c -b -a +a +b"
        await performance.stop()
        assert stage.took() == "!c -b -a"
        assert performance.error is None


async def test_a_stop_while_siblings_are_being_stopped_keeps_their_first_deadline(stage, autojump_clock):
    stage.stubborn = {"c": 4.0}
    sup = Supervisor("s", stage.specs("abc"), Strategy.ONE_FOR_ALL, **stage.ports)
    async with performing(sup) as performance:
        await stage.end("a")
        await trio.sleep(3.0)
        began = trio.current_time()
        stage.took()
        await performance.stop()
        assert trio.current_time() - began == pytest.approx(1.0)
        assert stage.took() == "-c -b"
        assert stage.unstoppable == []


async def test_a_child_that_dies_while_the_supervisor_stops_is_not_restarted_and_its_error_is_told(
    stage, autojump_clock
):
    stage.stubborn = {"c": 2.0}
    async with performing(Supervisor("s", stage.specs("abc"), **stage.ports)) as performance:
        stage.took()
        performance.scope.cancel()
        await trio.sleep(1.0)
        await stage.end("a")
        await performance.over.wait()
    assert stage.took() == "-a -c -b"
    assert [event.child for event in stage.told(EventKind.EXITED) if not event.asked] == ["a"]


async def test_the_end_of_the_program_in_a_child_that_is_being_stopped_still_stops_the_rest(stage, autojump_clock):
    async def rude(status):
        status.started()
        try:
            await trio.sleep_forever()
        finally:
            raise KeyboardInterrupt

    specs = [stage.spec("a"), ChildSpec("rude", rude), stage.spec("c")]
    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True):
        async with performing(Supervisor("s", specs, **stage.ports)) as performance:
            await performance.stop()
    assert stage.took() == "+a +c -c -a"


async def test_a_restart_that_waits_is_called_off_by_the_stop_and_keeps_nobody_busy(stage, autojump_clock):
    stage.stubborn = {"a": 4.0}
    sup = Supervisor("s", stage.specs("ab"), intensity=Intensity(9, 60.0), **stage.ports)
    async with performing(sup) as performance:
        stage.failing = {"b": 5}
        await stage.end("b")
        await trio.sleep(0.2)
        attempts = len(stage.attempts)
        assert sup.describe().children[1].state == "restarting"
        began = trio.current_time()
        performance.scope.cancel()
        await trio.sleep(1.0)
        assert sup.describe().children[1].state == "stopped"
        await performance.over.wait()
        assert trio.current_time() - began == pytest.approx(4.0)
        assert len(stage.attempts) == attempts


async def test_a_deadline_that_was_kept_keeps_nobody_busy_later(stage, autojump_clock):
    # a is asked, and ends in time, just before the stop; c is waited for long past the deadline that a kept.
    stage.stubborn = {"a": 1.0, "c": 60.0}
    specs = [stage.spec("a"), stage.spec("c", shutdown=90.0)]
    sup = Supervisor("s", specs, **stage.ports)
    async with trio.open_nursery() as nursery, performing(sup) as performance:
        nursery.start_soon(sup.terminate_child, "a")
        await trio.sleep(0.5)
        began = trio.current_time()
        await performance.stop()
        assert trio.current_time() - began == pytest.approx(60.0)


async def test_requests_while_stopping_are_refused_and_waiting_ones_end(stage, autojump_clock):
    stage.stubborn = {"a": 3.0}
    stage.slow = {"late": FOREVER}
    sup = Supervisor("s", stage.specs("ab"), **stage.ports)
    answers = []

    async def ask(what, *args):
        try:
            await what(*args)
            answers.append("done")
        except NotRunning:
            answers.append("refused")

    async with trio.open_nursery() as nursery, performing(sup) as performance:
        nursery.start_soon(ask, sup.start_child, stage.spec("late"))
        nursery.start_soon(ask, sup.restart_child, "a")
        await trio.sleep(1.0)
        performance.scope.cancel()
        nursery.start_soon(ask, sup.terminate_child, "b")
        await trio.sleep(1.0)
        nursery.start_soon(ask, sup.start_child, stage.spec("later"))
        nursery.start_soon(ask, sup.terminate_child, "a")
        await trio.sleep(0.5)
        assert sup.describe().state == "stopping"
        assert answers == ["refused"] * 5
    with pytest.raises(NotRunning):
        await sup.start_child(stage.spec("much later"))


async def test_requests_that_never_got_their_turn_are_refused_by_the_stop(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("ab"), Strategy.ONE_FOR_ALL, **stage.ports)
    refused = []

    async def ask():
        with pytest.raises(NotRunning):
            await sup.terminate_child("a")
        refused.append(True)

    async with trio.open_nursery() as nursery, performing(sup) as performance:
        stage.slow = {"b": FOREVER}
        await stage.end("b")
        nursery.start_soon(ask)
        await trio.sleep(1.0)
        assert not refused
        await performance.stop()
    assert refused
    assert stage.took() == "+a +b -b -a +a !b -a"


async def test_a_termination_under_way_when_the_stop_comes_ends_with_the_child(stage, autojump_clock):
    stage.stubborn = {"a": 3.0}
    sup = Supervisor("s", stage.specs("ab"), **stage.ports)
    async with trio.open_nursery() as nursery, performing(sup) as performance:
        nursery.start_soon(sup.terminate_child, "a")
        await trio.sleep(1.0)
        await performance.stop()
    assert stage.took() == "+a +b -b -a"


async def test_nested_supervisors_stop_inside_out(stage, autojump_clock):
    stage.stubborn = {"x": 4.0, "y": 4.0, "b": 4.0}
    inner = Supervisor("inner", stage.specs("xy"), **stage.ports)
    outer = Supervisor("outer", [stage.spec("a"), inner.as_child(), stage.spec("b")], **stage.ports)
    async with performing(outer) as performance:
        stage.took()
        await performance.stop()
    assert stage.took() == "-b -y -x -a"
    assert stage.unstoppable == []


def test_by_default_the_process_ends_and_says_which_child_it_was(monkeypatch, capsys):
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    exits.end_process("session-7")
    assert ended == [exits.UNSTOPPABLE_STATUS]
    assert "'session-7' ignored its cancellation" in capsys.readouterr().err


def test_a_real_process_ends_when_a_task_in_it_outlives_its_shutdown_time():
    program = textwrap.dedent("""
        import trio
        from supervisors.child_spec import ChildSpec
        from supervisors.supervisor import Supervisor

        async def shielded(status):
            status.started()
            with trio.CancelScope(shield=True):
                await trio.sleep(60)

        async def main():
            with trio.move_on_after(0.1):
                await Supervisor("s", [ChildSpec("stuck", shielded, shutdown=0.5)]).run()

        trio.run(main)
    """)
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == exits.UNSTOPPABLE_STATUS
    assert "'stuck' ignored its cancellation" in done.stderr
    assert 0.6 <= time.monotonic() - began < 10


async def test_broken_is_what_a_stage_child_raises(stage, autojump_clock):
    async with performing(Supervisor("s", stage.specs("a"), **stage.ports)):
        await stage.end("a", "raise")
    assert isinstance(stage.told(EventKind.EXITED)[0].exit.error, BrokenError)

import pytest
import trio

from supervisors.child_spec import TEMPORARY, TRANSIENT, ChildSpec
from supervisors.events import EventKind
from supervisors.exits import AlreadyStarted, NoSuchChild, NotRunning, StartFailed
from supervisors.intensity import Intensity
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import BrokenError, performing


def states(sup):
    return {child.id: child.state for child in sup.describe().children}


async def test_start_child_adds_at_the_right_end_and_returns_when_it_is_ready(stage, autojump_clock):
    stage.slow = {"b": 7.0}
    sup = Supervisor("s", stage.specs("a"), **stage.ports)
    async with performing(sup) as performance:
        began = trio.current_time()
        await sup.start_child(stage.spec("b"))
        assert trio.current_time() - began == pytest.approx(7.0)
        stage.took()
        await performance.stop()
    assert stage.took() == "-b -a"


async def test_start_child_refuses_an_id_that_is_taken_even_by_a_stopped_child(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), **stage.ports)
    async with performing(sup):
        with pytest.raises(AlreadyStarted):
            await sup.start_child(stage.spec("a"))
        await sup.terminate_child("a")
        with pytest.raises(AlreadyStarted):
            await sup.start_child(stage.spec("a"))
        assert stage.took() == "+a -a"


async def test_a_child_that_does_not_start_is_forgotten_and_its_error_raised(stage, autojump_clock):
    stage.failing = {"b": 1}
    sup = Supervisor("s", stage.specs("a"), **stage.ports)
    async with performing(sup):
        with pytest.raises(StartFailed) as caught:
            await sup.start_child(stage.spec("b"))
        assert isinstance(caught.value.__cause__, BrokenError)
        assert states(sup) == {"a": "running"}
        assert [event.child for event in stage.told(EventKind.START_FAILED)] == ["b"]
        await sup.start_child(stage.spec("b"))
        assert states(sup) == {"a": "running", "b": "running"}


async def test_a_child_added_is_restarted_like_the_others(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), intensity=Intensity(2, 5.0), **stage.ports)
    async with performing(sup):
        await sup.start_child(stage.spec("b"))
        stage.took()
        stage.failing = {"b": 1}
        await stage.end("b")
        assert stage.took() == "-b !b +b"


async def test_a_child_taken_down_by_a_sibling_while_it_starts_is_started_with_the_group(stage, autojump_clock):
    stage.slow = {"b": 5.0}
    sup = Supervisor("s", stage.specs("a"), Strategy.ONE_FOR_ALL, **stage.ports)
    async with performing(sup), trio.open_nursery() as nursery:
        nursery.start_soon(sup.start_child, stage.spec("b"))
        await trio.sleep(1.0)
        await stage.end("a")
        assert states(sup) == {"a": "running", "b": "starting"}
        await trio.sleep(6.0)
        assert stage.took() == "+a -a !b +a +b"


async def test_a_child_taken_down_while_it_starts_belongs_to_the_group_from_then_on(stage, autojump_clock):
    stage.slow = {"b": 5.0}
    sup = Supervisor("s", stage.specs("a"), Strategy.ONE_FOR_ALL, Intensity(9, 60.0), **stage.ports)
    async with performing(sup), trio.open_nursery() as nursery:
        nursery.start_soon(sup.start_child, stage.spec("b"))
        await trio.sleep(1.0)
        stage.failing = {"b": 2}
        await stage.end("a")
        await trio.sleep(30.0)
        assert states(sup) == {"a": "running", "b": "running"}


async def test_terminate_stops_and_keeps_the_spec_until_it_is_deleted(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("ab"), **stage.ports)
    async with performing(sup):
        await sup.terminate_child("a")
        await sup.terminate_child("a")
        assert states(sup) == {"a": "stopped", "b": "running"}
        await sup.delete_child("a")
        assert states(sup) == {"b": "running"}
        with pytest.raises(NoSuchChild):
            await sup.restart_child("a")


async def test_a_temporary_child_is_gone_with_its_termination(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a", restart=TEMPORARY), **stage.ports)
    async with performing(sup):
        await sup.terminate_child("a")
        for call in (sup.terminate_child, sup.restart_child, sup.delete_child):
            with pytest.raises(NoSuchChild):
                await call("a")


async def test_delete_refuses_a_child_that_is_not_stopped(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), intensity=Intensity(9, 5.0), **stage.ports)
    async with performing(sup):
        with pytest.raises(AlreadyStarted):
            await sup.delete_child("a")
        stage.failing = {"a": 3}
        await stage.end("a")
        assert states(sup) == {"a": "restarting"}
        with pytest.raises(AlreadyStarted):
            await sup.delete_child("a")


async def test_restart_starts_a_stopped_child_and_cycles_a_running_one_without_counting(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("ab"), intensity=Intensity(0, 5.0), **stage.ports)
    async with performing(sup):
        await sup.terminate_child("a")
        await sup.restart_child("a")
        await sup.restart_child("a")
        assert stage.took() == "+a +b -a +a -a +a"
        assert [(child.incarnation, child.restarts) for child in sup.describe().children] == [(3, 2), (1, 0)]


async def test_restart_cycles_a_temporary_child(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a", restart=TEMPORARY), **stage.ports)
    async with performing(sup):
        await sup.restart_child("a")
        assert stage.took() == "+a -a +a"


async def test_restart_waits_until_the_child_is_up_again_through_failed_starts(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), intensity=Intensity(5, 30.0), **stage.ports)
    async with performing(sup):
        stage.failing = {"a": 3}
        await sup.restart_child("a")
        assert stage.took() == "+a -a !a !a !a +a"


async def test_a_waiting_restart_is_refused_when_the_supervisor_gives_up(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), intensity=Intensity(2, 30.0), **stage.ports)
    async with performing(sup) as performance:
        stage.failing = {"a": 9}
        with pytest.raises(NotRunning):
            await sup.restart_child("a")
        await performance.over.wait()
        assert performance.error.child == "a"


async def test_termination_calls_off_a_restart_that_waits(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), intensity=Intensity(9, 5.0), **stage.ports)
    async with performing(sup):
        stage.failing = {"a": 3}
        await stage.end("a")
        await sup.terminate_child("a")
        await trio.sleep(60.0)
        assert states(sup) == {"a": "stopped"}


async def test_termination_overtakes_a_restart_by_request(stage, autojump_clock):
    stage.stubborn = {"a": 2.0}
    sup = Supervisor("s", stage.specs("a"), **stage.ports)
    answers = []

    async def restart():
        with pytest.raises(StartFailed):
            await sup.restart_child("a")
        answers.append("stopped meanwhile")

    async with performing(sup), trio.open_nursery() as nursery:
        nursery.start_soon(restart)
        await trio.sleep(1.0)
        await sup.terminate_child("a")
        await trio.sleep(1.0)
        assert stage.took() == "+a -a"
        assert answers == ["stopped meanwhile"]


async def test_a_child_terminated_before_it_was_ready_is_forgotten_by_the_start_that_added_it(stage, autojump_clock):
    stage.slow = {"b": 5.0}
    sup = Supervisor("s", stage.specs("a"), **stage.ports)

    async def start():
        with pytest.raises(StartFailed):
            await sup.start_child(stage.spec("b"))

    async with performing(sup), trio.open_nursery() as nursery:
        nursery.start_soon(start)
        await trio.sleep(1.0)
        await sup.terminate_child("b")
        assert states(sup) == {"a": "running"}


async def test_a_terminated_child_returns_when_a_sibling_restarts_the_group(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("abc"), Strategy.ONE_FOR_ALL, **stage.ports)
    async with performing(sup):
        await sup.terminate_child("b")
        stage.took()
        await stage.end("a")
        assert stage.took() == "-a -c +a +b +c"


async def test_a_caller_that_leaves_before_its_turn_changes_nothing(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("ab"), Strategy.ONE_FOR_ALL, **stage.ports)
    async with performing(sup):
        stage.slow = {"b": 5.0}
        await stage.end("b")
        with trio.move_on_after(1.0) as scope:
            await sup.terminate_child("a")
        assert scope.cancelled_caught
        await trio.sleep(9.0)
        assert states(sup) == {"a": "running", "b": "running"}
        assert stage.took() == "+a +b -b -a +a +b"


async def test_a_caller_that_leaves_later_leaves_the_child_to_the_supervisor(stage, autojump_clock):
    stage.slow = {"b": 5.0}
    stage.stubborn = {"a": 9.0}
    sup = Supervisor("s", stage.specs("a"), **stage.ports)
    async with performing(sup):
        with trio.move_on_after(1.0):
            await sup.start_child(stage.spec("b"))
        with trio.move_on_after(1.0):
            await sup.terminate_child("a")
        await trio.sleep(20.0)
        assert states(sup) == {"a": "stopped", "b": "running"}
        assert stage.unstoppable == ["a"]


async def test_a_child_may_have_itself_terminated(autojump_clock):
    async def leaver(status):
        status.started()
        await trio.sleep(1.0)
        await sup.terminate_child("a")

    sup = Supervisor("s", [ChildSpec("a", leaver, restart=TRANSIENT)])
    async with performing(sup):
        await trio.sleep(2.0)
        assert states(sup) == {"a": "stopped"}


async def test_requests_made_while_the_first_children_start_wait_for_them(stage, autojump_clock):
    stage.slow = {"b": 5.0}
    sup = Supervisor("s", stage.specs("ab"), **stage.ports)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sup.run)
        await trio.sleep(1.0)
        await sup.terminate_child("a")
        assert stage.took() == "+a +b -a"
        nursery.cancel_scope.cancel()


async def test_requests_are_refused_where_no_supervisor_runs(stage):
    sup = Supervisor("s", stage.specs("a"))
    for call in (sup.terminate_child, sup.restart_child, sup.delete_child):
        with pytest.raises(NotRunning):
            await call("a")

import contextvars

import pytest
import trio

from supervisors.child_spec import PERMANENT, TEMPORARY, TRANSIENT, ChildSpec
from supervisors.dynamic import DynamicSupervisor
from supervisors.events import EventKind
from supervisors.exits import AlreadyStarted, BoundExceeded, NotRunning, StartFailed
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import FOREVER, BrokenError, performing
from tests.supervisors.test_exits import TABLE


async def test_start_child_returns_at_once_and_the_child_runs(stage, autojump_clock):
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        sup.start_child(stage.spec("a"))
        assert stage.took() == ""
        assert "a" in sup
        assert len(sup) == 1
        await trio.testing.wait_all_tasks_blocked()
        assert stage.took() == "+a"


@pytest.mark.parametrize(("restart", "how"), list(TABLE))
async def test_restart_type_and_exit_decide_on_the_restart(stage, autojump_clock, restart, how):
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        await sup.start_child_ready(stage.spec("a", restart=restart))
        if how == "cancel":
            await sup.stop_child("a")
        else:
            await stage.end("a", how)
        assert stage.took() == ("+a -a +a" if TABLE[restart, how] else "+a -a")
        assert ("a" in sup) == TABLE[restart, how]


@pytest.mark.parametrize("default", [TEMPORARY, TRANSIENT, PERMANENT])
async def test_an_open_restart_type_is_the_supervisors(stage, autojump_clock, default):
    settings = {} if default is TEMPORARY else {"restart": default}
    sup = DynamicSupervisor("d", **settings, **stage.ports)
    async with performing(sup):
        sup.start_child(stage.spec("a"))
        await trio.testing.wait_all_tasks_blocked()
        await stage.end("a")
        assert ("a" in sup) == (default is not TEMPORARY)


async def test_an_id_is_taken_until_nothing_of_its_child_runs(stage, autojump_clock):
    stage.stubborn = {"a": 3.0}
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup), trio.open_nursery() as nursery:
        await sup.start_child_ready(stage.spec("a"))
        nursery.start_soon(sup.stop_child, "a")
        await trio.sleep(2.9)
        with pytest.raises(AlreadyStarted):
            sup.start_child(stage.spec("a"))
        await trio.sleep(0.2)
        sup.start_child(stage.spec("a"))
        await trio.testing.wait_all_tasks_blocked()
        assert stage.took() == "+a -a +a"
        assert sup.children() == {"a": 2}


async def test_a_bound_refuses_and_frees_with_the_ends(stage, autojump_clock):
    sup = DynamicSupervisor("d", max_children=2, **stage.ports)
    async with performing(sup):
        await sup.start_child_ready(stage.spec("a"))
        await sup.start_child_ready(stage.spec("b"))
        with pytest.raises(BoundExceeded):
            sup.start_child(stage.spec("c"))
        assert await sup.stop_child("a")
        sup.start_child(stage.spec("c"))
        assert set(sup.children()) == {"b", "c"}


async def test_starts_are_refused_before_during_the_stop_and_after(stage, autojump_clock):
    stage.stubborn = {"a": 3.0}
    sup = DynamicSupervisor("d", **stage.ports)
    with pytest.raises(NotRunning):
        sup.start_child(stage.spec("a"))
    async with performing(sup) as performance:
        sup.start_child(stage.spec("a"))
        await trio.testing.wait_all_tasks_blocked()
        performance.scope.cancel()
        await trio.sleep(1.0)
        with pytest.raises(NotRunning):
            sup.start_child(stage.spec("b"))
        with pytest.raises(NotRunning):
            await sup.start_child_ready(stage.spec("b"))
    with pytest.raises(NotRunning):
        sup.start_child(stage.spec("c"))


async def test_a_child_started_in_the_very_moment_of_the_stop_is_stopped_too(stage, autojump_clock):
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup) as performance:
        performance.scope.cancel()
        sup.start_child(stage.spec("a"))
        await performance.over.wait()
        assert stage.alive == []
        assert len(sup) == 0


async def test_all_children_stop_in_parallel_each_within_its_own_time(stage, autojump_clock):
    names = [f"c{number}" for number in range(20)]
    stage.stubborn = dict.fromkeys(names, 4.0) | {"c7": 9.0, "c8": 30.0}
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup) as performance:
        for name in names:
            sup.start_child(stage.spec(name, shutdown=FOREVER if name == "c8" else 5.0))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await performance.stop()
        assert trio.current_time() - began == pytest.approx(30.0)
        assert stage.unstoppable == ["c7"]
        assert [event.child for event in stage.told(EventKind.UNSTOPPABLE)] == ["c7"]


async def test_start_ready_waits_for_started(stage, autojump_clock):
    stage.slow = {"a": 3.0}
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        began = trio.current_time()
        await sup.start_child_ready(stage.spec("a"))
        assert trio.current_time() - began == pytest.approx(3.0)


@pytest.mark.parametrize("restart", [TEMPORARY, TRANSIENT, PERMANENT])
async def test_start_ready_raises_what_the_start_raised_and_keeps_nothing(stage, autojump_clock, restart):
    stage.failing = {"a": 1}
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        with pytest.raises(StartFailed) as caught:
            await sup.start_child_ready(stage.spec("a", restart=restart))
        assert isinstance(caught.value.__cause__, BrokenError)
        await trio.sleep(60.0)
        assert "a" not in sup
        assert stage.took() == "!a"
        assert [event.child for event in stage.told(EventKind.START_FAILED)] == ["a"]


async def test_start_ready_fails_when_the_child_returns_or_is_stopped_before_it_is_ready(stage, autojump_clock):
    async def hasty(status):
        await trio.lowlevel.checkpoint()

    stage.slow = {"b": FOREVER}
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup), trio.open_nursery() as nursery:
        with pytest.raises(StartFailed):
            await sup.start_child_ready(ChildSpec("a", hasty))

        async def start():
            with pytest.raises(StartFailed):
                await sup.start_child_ready(stage.spec("b"))

        nursery.start_soon(start)
        await trio.sleep(1.0)
        assert await sup.stop_child("b")


async def test_start_ready_succeeds_for_a_child_that_was_ready_and_ended_in_one_step(autojump_clock):
    async def brief(status):  # noqa: ASYNC124 - ends within the step in which it became ready
        status.started()

    sup = DynamicSupervisor("d")
    async with performing(sup):
        await sup.start_child_ready(ChildSpec("a", brief))
        assert "a" not in sup


async def test_a_cancelled_start_ready_takes_the_child_with_it(stage, autojump_clock):
    stage.slow = {"a": FOREVER}
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        with trio.move_on_after(2.0):
            await sup.start_child_ready(stage.spec("a", restart=PERMANENT))
        await trio.testing.wait_all_tasks_blocked()
        assert stage.took() == "!a"
        assert "a" not in sup


async def test_stopping_an_absent_child_is_no_error(stage, autojump_clock):
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        assert not await sup.stop_child("a")
        assert not sup.request_stop("a")
        sup.mark_healthy("a")


async def test_several_may_wait_for_one_stop(stage, autojump_clock):
    stage.stubborn = {"a": 2.0}
    sup = DynamicSupervisor("d", **stage.ports)
    answers = []

    async def stop():
        answers.append(await sup.stop_child("a"))

    async with performing(sup):
        await sup.start_child_ready(stage.spec("a"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            nursery.start_soon(stop)
        assert answers == [True, True]
        assert stage.took() == "+a -a"


async def test_a_stop_outlives_the_caller_that_asked_for_it_and_so_does_its_deadline(stage, autojump_clock):
    stage.stubborn = {"a": 60.0}
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        await sup.start_child_ready(stage.spec("a", shutdown=8.0))
        await sup.start_child_ready(stage.spec("b", shutdown=2.0))
        with trio.move_on_after(1.0):
            await sup.stop_child("a")
        assert sup.request_stop("b")
        await trio.sleep(6.9)
        assert stage.unstoppable == []
        await trio.sleep(0.2)
        assert stage.unstoppable == ["a"]
        assert "a" in sup


async def test_later_stops_with_earlier_deadlines_are_not_missed(stage, autojump_clock):
    stage.stubborn = dict.fromkeys("abc", 60.0)
    at = []
    sup = DynamicSupervisor(
        "d", on_event=stage.events.append, on_unstoppable=lambda child: at.append((child, trio.current_time()))
    )
    async with performing(sup):
        for name, shutdown in (("a", 20.0), ("b", 3.0), ("c", 10.0)):
            await sup.start_child_ready(stage.spec(name, shutdown=shutdown))
        began = trio.current_time()
        for name in "abc":
            sup.request_stop(name)
        sup.request_stop("a")
        await trio.sleep(30.0)
        assert [(name, round(when - began, 6)) for name, when in at] == [("b", 3.0), ("c", 10.0), ("a", 20.0)]


async def test_a_child_asked_to_stop_before_its_task_ran_is_never_called(stage, autojump_clock):
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        sup.start_child(stage.spec("a"))
        assert await sup.stop_child("a")
        assert stage.attempts == []


async def test_a_child_may_stop_itself(autojump_clock):
    async def leaver(status):
        status.started()
        await sup.stop_child("a")

    sup = DynamicSupervisor("d")
    async with performing(sup):
        await sup.start_child_ready(ChildSpec("a", leaver, restart=PERMANENT))
        await trio.testing.wait_all_tasks_blocked()
        assert "a" not in sup


async def test_children_do_not_inherit_the_context_of_whoever_asked_for_their_start(autojump_clock):
    request = contextvars.ContextVar("request", default="none")
    seen = []

    async def child(status):
        seen.append(request.get())
        await trio.lowlevel.checkpoint()

    sup = DynamicSupervisor("d")
    async with performing(sup):
        request.set("of one caller")
        sup.start_child(ChildSpec("a", child))
        await trio.testing.wait_all_tasks_blocked()
    assert seen == ["none"]


async def test_it_runs_once_at_a_time_but_may_run_again(stage, autojump_clock):
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        sup.start_child(stage.spec("a"))
        with pytest.raises(RuntimeError, match="runs already"):
            await sup.run()
    async with performing(sup):
        assert sup.children() == {}
        assert sup.describe().incarnation == 2
        sup.start_child(stage.spec("a"))
        assert sup.children() == {"a": 2}


async def test_under_a_parent_it_is_a_child_like_any_other(stage, autojump_clock):
    sup = DynamicSupervisor("d", **stage.ports)
    parent = Supervisor("p", [stage.spec("x"), sup.as_child()], **stage.ports)
    async with performing(parent) as performance:
        await sup.start_child_ready(stage.spec("a"))
        stage.took()
        await performance.stop()
    assert stage.took() == "-a -x"

import contextvars
import logging

import pytest
import trio

from supervisors.child_spec import TEMPORARY, ChildSpec, Counts
from supervisors.events import EventKind
from supervisors.exits import StartFailed
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import FOREVER, BrokenError, performing


async def test_children_start_left_to_right_each_ready_before_the_next_begins(stage, autojump_clock):
    stage.slow = {"a": 3.0, "b": 1.0}
    sup = Supervisor("s", stage.specs("abc"), **stage.ports)
    async with performing(sup):
        assert stage.took() == "+a +b +c"
        assert [round(at - stage.attempts[0][1], 6) for _, at in stage.attempts] == [0.0, 3.0, 4.0]


async def test_started_is_called_once_all_children_are_ready(stage, autojump_clock):
    stage.slow = {"a": 2.0}
    sup = Supervisor("s", stage.specs("ab"), **stage.ports)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sup.run)
        await trio.sleep(1.0)
        assert sup.describe().state == "starting"
        await trio.sleep(1.5)
        assert sup.describe().state == "running"
        nursery.cancel_scope.cancel()
    assert sup.describe().state == "stopped"


async def test_a_supervisor_without_children_runs_until_it_is_stopped(autojump_clock):
    sup = Supervisor("s", [])
    async with performing(sup) as performance:
        await trio.sleep(1000)
        assert not performance.over.is_set()


async def test_a_child_that_fails_its_first_start_ends_the_supervisor_after_its_elders_stopped(stage, autojump_clock):
    stage.failing = {"c": 1}
    sup = Supervisor("s", stage.specs("abcd"), **stage.ports)
    with pytest.raises(StartFailed) as caught:
        await sup.run()
    assert stage.took() == "+a +b !c -b -a"
    assert (caught.value.supervisor, caught.value.child) == ("s", "c")
    assert isinstance(caught.value.__cause__, BrokenError)
    assert [event.child for event in stage.told(EventKind.START_FAILED)] == ["c"]


@pytest.mark.parametrize("counts", list(Counts))
async def test_returning_before_started_is_a_failed_start(stage, autojump_clock, counts):
    async def hasty(status):
        await trio.sleep(1)

    sup = Supervisor("s", [stage.spec("a"), ChildSpec("hasty", hasty, counts=counts)], **stage.ports)
    with pytest.raises(Exception, match="hasty"):
        await sup.run()
    assert stage.took() == "+a -a"


async def test_calling_started_twice_is_the_childs_error(stage, autojump_clock):
    async def eager(status):
        status.started()
        await trio.lowlevel.checkpoint()
        status.started()

    async with performing(Supervisor("s", [ChildSpec("eager", eager)], **stage.ports)) as performance:
        await performance.over.wait()
    assert "called twice" in str(performance.error.last)


async def test_a_start_function_that_is_not_async_is_a_failed_start(stage, autojump_clock):
    def plain(status):
        raise BrokenError("no coroutine")

    with pytest.raises(StartFailed):
        await Supervisor("s", [ChildSpec("plain", plain)], **stage.ports).run()


def test_ids_must_be_unique(stage):
    with pytest.raises(ValueError, match="not unique"):
        Supervisor("s", stage.specs("aba"))


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_shutdown_time_must_be_positive(stage, seconds):
    with pytest.raises(ValueError, match="shutdown"):
        stage.spec("a", shutdown=seconds)


def test_default_shutdown_times_are_otps(stage):
    assert stage.spec("a").shutdown == 5.0
    assert stage.spec("a", kind="supervisor").shutdown == FOREVER


async def test_a_supervisor_runs_once_at_a_time_but_may_run_again(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), **stage.ports)
    async with performing(sup):
        with pytest.raises(RuntimeError, match="runs already"):
            await sup.run()
    async with performing(sup):
        assert stage.took() == "+a -a +a"
        assert [child.incarnation for child in sup.describe().children] == [2]
        assert [child.restarts for child in sup.describe().children] == [0]


async def test_a_second_run_begins_with_the_children_of_the_first_day(stage, autojump_clock):
    sup = Supervisor("s", stage.specs("a"), **stage.ports)
    async with performing(sup):
        await sup.start_child(stage.spec("b"))
    async with performing(sup):
        assert [child.id for child in sup.describe().children] == ["a"]


async def test_children_do_not_inherit_the_context_of_whoever_asked_for_their_start(autojump_clock):
    request = contextvars.ContextVar("request", default="none")
    seen = []

    async def child(status):
        seen.append(request.get())
        status.started()
        await trio.sleep_forever()

    sup = Supervisor("s", [])
    async with performing(sup):
        request.set("of one caller")
        await sup.start_child(ChildSpec("a", child))
    assert seen == ["none"]


async def test_without_a_listener_an_abnormal_exit_is_logged_with_its_traceback(stage, autojump_clock, caplog):
    caplog.set_level(logging.INFO, "supervisors")
    async with performing(Supervisor("s", stage.specs("a"))):
        await stage.end("a", BrokenError("the reason"))
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert isinstance(errors[0].exc_info[1], BrokenError)
    assert "child=a" in errors[0].getMessage()


async def test_a_listener_that_raises_is_logged_and_changes_nothing(stage, autojump_clock, caplog):
    def bad_sink(event):
        raise OSError("the log is full")

    async with performing(Supervisor("s", stage.specs("a"), on_event=bad_sink)):
        await stage.end("a", BrokenError("the reason"))
        assert stage.took() == "+a -a +a"
    assert "the log is full" in caplog.text
    assert "the reason" in caplog.text


async def test_a_temporary_child_that_fails_its_first_start_ends_the_supervisor_whatever_counts(stage, autojump_clock):
    stage.failing = {"a": 9}
    specs = [stage.spec("a", restart=TEMPORARY, counts=Counts.BEFORE_READY)]
    with pytest.raises(StartFailed):
        await Supervisor("s", specs, **stage.ports).run()
    assert stage.took() == "!a"


async def test_a_start_that_fails_in_the_moment_of_the_stop_is_told_too(stage, autojump_clock):
    async def failing(status):
        await trio.sleep(1.0)
        scope.cancel()
        raise BrokenError("unseen?")

    with trio.CancelScope() as scope:
        await Supervisor("s", [ChildSpec("a", failing)], **stage.ports).run()
    assert [str(event.exit.error) for event in stage.told(EventKind.START_FAILED)] == ["unseen?"]

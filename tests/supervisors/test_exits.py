import pytest
import trio

from supervisors.child_spec import PERMANENT, TEMPORARY, TRANSIENT, ChildSpec, Restart
from supervisors.events import EventKind
from supervisors.exits import (
    Escalated,
    Exit,
    ExitKind,
    NoSuchChild,
    ProcessExited,
    Shutdown,
    StartFailed,
    ends_process,
    exit_of,
)
from supervisors.intensity import Intensity
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import BrokenError, performing

# B1: OTP's table, cell by cell.
TABLE = {
    (PERMANENT, "return"): True,
    (PERMANENT, "shutdown"): True,
    (PERMANENT, "raise"): True,
    (PERMANENT, "cancel"): False,
    (TRANSIENT, "return"): False,
    (TRANSIENT, "shutdown"): False,
    (TRANSIENT, "raise"): True,
    (TRANSIENT, "cancel"): False,
    (TEMPORARY, "return"): False,
    (TEMPORARY, "shutdown"): False,
    (TEMPORARY, "raise"): False,
    (TEMPORARY, "cancel"): False,
}


@pytest.mark.parametrize(("restart", "how"), list(TABLE))
async def test_restart_type_and_exit_decide_on_the_restart(stage, autojump_clock, restart, how):
    sup = Supervisor("s", [stage.spec("a", restart=restart), stage.spec("b")], **stage.ports)
    async with performing(sup):
        stage.took()
        if how == "cancel":
            await sup.terminate_child("a")
        else:
            await stage.end("a", how)
        restarted = TABLE[restart, how]
        assert stage.took() == ("-a +a" if restarted else "-a")
        kept = [] if restart is TEMPORARY else ["a"]
        assert [child.id for child in sup.describe().children] == [*kept, "b"]
        if kept:
            assert sup.describe().children[0].state == ("running" if restarted else "stopped")


async def test_an_open_restart_type_is_permanent(stage, autojump_clock):
    async with performing(Supervisor("s", stage.specs("a"), **stage.ports)):
        await stage.end("a", "return")
        assert stage.took() == "+a -a +a"


async def test_a_childs_own_cancel_scope_ends_it_normally(stage, autojump_clock):
    async def patient(status):
        status.started()
        with trio.move_on_after(1):
            await trio.sleep_forever()

    sup = Supervisor("s", [ChildSpec("a", patient, restart=TRANSIENT)], **stage.ports)
    async with performing(sup):
        await trio.sleep(2)
        assert stage.told(EventKind.EXITED)[0].exit == Exit(ExitKind.NORMAL)
        assert sup.describe().children[0].state == "stopped"


async def test_the_exception_of_an_abnormal_exit_reaches_the_listener_whole(stage, autojump_clock):
    group = ExceptionGroup("both", [BrokenError("one"), Shutdown("two")])
    async with performing(Supervisor("s", stage.specs("a"), **stage.ports)):
        await stage.end("a", group)
    exits = stage.told(EventKind.EXITED)
    assert exits[0].exit == Exit(ExitKind.ABNORMAL, group)
    assert (exits[0].supervisor, exits[0].child, exits[0].incarnation, exits[0].asked) == ("s", "a", 1, False)
    assert (exits[1].exit, exits[1].asked) == (Exit(ExitKind.SHUTDOWN), True)


async def test_an_error_while_stopping_is_told_beside_the_cancellation(stage, autojump_clock):
    async def messy(status):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            status.started()
            try:
                await trio.sleep_forever()
            finally:
                raise BrokenError("while cleaning up")

    async with performing(Supervisor("s", [ChildSpec("a", messy)], **stage.ports)) as performance:
        await performance.stop()
    (event,) = stage.told(EventKind.EXITED)
    assert event.asked
    assert event.exit.kind is ExitKind.ABNORMAL
    assert event.exit.error.split(BrokenError)[0] is not None
    assert performance.error is None


async def test_a_kept_cancellation_raised_again_is_an_abnormal_exit_and_stops_nobody_else(stage, autojump_clock):
    async def hoarder(status):
        kept = []
        with trio.move_on_after(1):
            try:
                await trio.sleep_forever()
            except trio.Cancelled as cancelled:
                kept.append(cancelled)
                raise
        status.started()
        raise kept[0]

    specs = [stage.spec("a"), ChildSpec("hoarder", hoarder, restart=TEMPORARY)]
    sup = Supervisor("s", specs, **stage.ports)
    async with performing(sup):
        await trio.sleep(5)
        assert stage.took() == "+a"
        (event,) = stage.told(EventKind.EXITED)
        assert event.exit.kind is ExitKind.ABNORMAL
        assert isinstance(event.exit.error, trio.Cancelled)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), BaseExceptionGroup("", [KeyboardInterrupt()])])
async def test_what_ends_the_program_is_no_childs_failure_but_comes_out_after_an_ordered_stop(
    stage, autojump_clock, error
):
    sup = Supervisor("s", stage.specs("abc"), **stage.ports)
    with pytest.RaisesGroup(SystemExit if isinstance(error, SystemExit) else KeyboardInterrupt, flatten_subgroups=True):
        async with performing(sup):
            await stage.end("b", error)
            await trio.sleep_forever()
    assert stage.took() == "+a +b +c -b -c -a"
    assert sup.describe().state == "stopped"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, ExitKind.NORMAL),
        (Shutdown(), ExitKind.SHUTDOWN),
        (Escalated("s", "a", Exit(ExitKind.NORMAL)), ExitKind.SHUTDOWN),
        (ExceptionGroup("", [Shutdown(), ExceptionGroup("", [Shutdown()])]), ExitKind.SHUTDOWN),
        (ExceptionGroup("", [Shutdown(), ExceptionGroup("", [BrokenError()])]), ExitKind.ABNORMAL),
        (StartFailed("s", "a", Exit(ExitKind.NORMAL)), ExitKind.ABNORMAL),
        (NoSuchChild("s", "a", "gone"), ExitKind.ABNORMAL),
        (ProcessExited("agents-0", -9, "killed"), ExitKind.ABNORMAL),
        (KeyboardInterrupt(), ExitKind.ABNORMAL),
    ],
)
def test_exit_classes(error, kind):
    assert exit_of(error) == Exit(kind, error)


def test_what_ends_the_program():
    deep = BaseExceptionGroup("", [ExceptionGroup("", [BrokenError()]), BaseExceptionGroup("", [SystemExit()])])
    assert ends_process(deep)
    assert not ends_process(ExceptionGroup("", [BrokenError()]))


def test_texts_name_what_a_reader_needs():
    assert str(ProcessExited("edge-0", 1, "no heartbeat")) == "process 'edge-0' exited with status 1: no heartbeat"
    assert str(Exit(ExitKind.ABNORMAL, BrokenError("x"))) == "abnormal (BrokenError: x)"
    assert str(Exit(ExitKind.NORMAL)) == "normal"
    assert str(NoSuchChild("s", "a", "no such child")) == "'s' refuses 'a': no such child"
    assert "gave up: child 'a'" in str(Escalated("s", "a", Exit(ExitKind.NORMAL)))


async def test_an_escalated_child_supervisor_restarts_only_when_permanent(stage, autojump_clock):
    for restart, expected in ((PERMANENT, "+x -x +x"), (TRANSIENT, "+x -x")):
        inner = Supervisor("inner", stage.specs("x"), intensity=Intensity(0, 5.0), **stage.ports)
        outer = Supervisor("outer", [inner.as_child(restart)], intensity=Intensity(3, 5.0), **stage.ports)
        async with performing(outer):
            await stage.end("x")
            assert stage.took() == expected
        stage.took()


def test_restart_types_cover_all_exits():
    wanted = {(restart, kind) for restart in Restart for kind in ExitKind if restart.applies_to(kind)}
    assert wanted == {*((PERMANENT, kind) for kind in ExitKind), (TRANSIENT, ExitKind.ABNORMAL)}

import gc
import math
import weakref

import pytest
import trio

from supervisors.backoff import Schedule
from supervisors.child_spec import PERMANENT, TRANSIENT, ChildSpec
from supervisors.dynamic import DynamicSupervisor
from supervisors.events import EventKind
from supervisors.exits import ExitKind
from supervisors.intensity import Intensity
from tests.supervisors.stage import FOREVER, BrokenError, performing


async def test_one_of_a_thousand_crash_loops_and_is_dropped_alone(stage, autojump_clock):
    # B6.
    dropped = []
    sup = DynamicSupervisor(
        "d", Intensity(5, 30.0), restart=TRANSIENT, on_dropped=lambda *what: dropped.append(what), **stage.ports
    )
    async with performing(sup) as performance:
        for number in range(1000):
            sup.start_child(stage.spec(f"c{number}"))
        await trio.testing.wait_all_tasks_blocked()
        before = sup.children()
        while "c500" in sup:
            if "c500" in stage.alive:
                await stage.end("c500")
            await trio.sleep(0.01)
        after = sup.children()
        del before["c500"]
        assert after == before
        assert [name for name, _ in stage.attempts].count("c500") == 6
        ((name, how),) = dropped
        assert name == "c500"
        assert isinstance(how.error, BrokenError)
        assert [event.child for event in stage.told(EventKind.DROPPED)] == ["c500"]
        assert not performance.over.is_set()


async def test_a_dropped_id_is_free_when_its_owner_is_told(stage, autojump_clock):
    def again(child, _how):
        if not revived:
            revived.append(child)
            sup.start_child(stage.spec(child))

    revived = []
    sup = DynamicSupervisor("d", Intensity(0, 30.0), restart=PERMANENT, on_dropped=again, **stage.ports)
    async with performing(sup):
        await sup.start_child_ready(stage.spec("a"))
        await stage.end("a")
        assert stage.took() == "+a -a +a"
        assert sup.children() == {"a": 2}


async def test_without_a_listener_a_dropped_child_is_just_gone(stage, autojump_clock):
    sup = DynamicSupervisor("d", Intensity(0, 30.0), restart=PERMANENT)
    async with performing(sup):
        await sup.start_child_ready(stage.spec("a"))
        await stage.end("a", "return")
        assert "a" not in sup


async def test_delays_follow_the_schedule_a_healthy_mark_ends_the_row(stage, autojump_clock):
    # B8: crash 1 waits 1 s, crash 2 waits 5 s, the third in a row is the last; a completed check between them resets.
    dropped = []
    sup = DynamicSupervisor(
        "watches",
        Intensity(2, math.inf),
        restart=TRANSIENT,
        backoff=Schedule((1.0, 5.0)),
        on_dropped=lambda child, _how: dropped.append(child),
        **stage.ports,
    )
    async with performing(sup):
        for name, healthy in (("w1", False), ("w2", True)):
            await sup.start_child_ready(stage.spec(name))
            gaps = []
            for crash in range(4 if healthy else 3):
                if crash == 2 and healthy:
                    await trio.sleep(80_000.0)
                    sup.mark_healthy(name)
                began = trio.current_time()
                await stage.end(name)
                if name not in sup:
                    break
                assert sup.describe().children[-1].state == "restarting"
                await stage.until_alive(name)
                gaps.append(stage.attempts[-1][1] - began)
            if healthy:
                assert gaps == pytest.approx([1.0, 5.0, 1.0, 5.0])
                assert dropped == ["w1"]
            else:
                assert gaps == pytest.approx([1.0, 5.0])
                assert dropped == ["w1"]


async def test_only_the_first_start_of_start_ready_must_succeed(stage, autojump_clock):
    sup = DynamicSupervisor("d", restart=PERMANENT, **stage.ports)
    async with performing(sup):
        await sup.start_child_ready(stage.spec("a"))
        stage.failing = {"a": 3}
        await stage.end("a")
        await trio.sleep(10.0)
        assert stage.took() == "+a -a !a !a !a +a"


async def test_a_stable_run_longer_than_the_period_ends_the_row(stage, autojump_clock):
    sup = DynamicSupervisor("d", Intensity(5, 30.0), restart=PERMANENT, backoff=Schedule((1.0, 2.0)), **stage.ports)
    async with performing(sup):
        await sup.start_child_ready(stage.spec("a"))
        for run in (1.0, 1.0, 30.0, 31.0):
            await trio.sleep(run)
            await stage.end("a")
            await stage.until_alive("a")
        assert [event.delay for event in stage.told(EventKind.RESTARTING)] == [1.0, 2.0, 2.0, 1.0]
        assert [(child.restarts, child.incarnation) for child in sup.describe().children] == [(4, 5)]


async def test_a_child_that_never_says_it_is_ready_is_judged_by_how_long_it_ran(stage, autojump_clock):
    async def silent(_status):
        await trio.sleep(31.0)
        raise BrokenError

    sup = DynamicSupervisor("d", Intensity(5, 30.0), restart=PERMANENT, backoff=Schedule((1.0, 2.0)), **stage.ports)
    async with performing(sup):
        sup.start_child(ChildSpec("a", silent))
        await trio.sleep(100.0)
        assert [event.delay for event in stage.told(EventKind.RESTARTING)] == [1.0, 1.0, 1.0]
        assert sup.describe().children[0].state == "starting"


async def test_a_stop_while_a_child_waits_for_its_restart_ends_it_at_once(stage, autojump_clock):
    sup = DynamicSupervisor("d", restart=PERMANENT, backoff=Schedule((50.0,)), **stage.ports)
    async with performing(sup):
        await sup.start_child_ready(stage.spec("a"))
        await stage.end("a")
        began = trio.current_time()
        assert await sup.stop_child("a")
        assert trio.current_time() == began
        assert stage.took() == "+a -a"


async def test_the_supervisors_stop_while_children_wait_for_their_restarts(stage, autojump_clock):
    sup = DynamicSupervisor("d", restart=PERMANENT, backoff=Schedule((50.0,)), **stage.ports)
    async with performing(sup) as performance:
        for name in "abc":
            await sup.start_child_ready(stage.spec(name))
            await stage.end(name)
        began = trio.current_time()
        await performance.stop()
        assert trio.current_time() == began
        assert len(stage.attempts) == 3


async def test_a_child_that_dies_while_all_are_stopped_is_not_restarted(stage, autojump_clock):
    stage.stubborn = {"a": 3.0}

    async def dies_at_its_stop(status):
        status.started()
        try:
            await trio.sleep_forever()
        finally:
            raise BrokenError("at the end")

    sup = DynamicSupervisor("d", restart=PERMANENT, **stage.ports)
    async with performing(sup) as performance:
        await sup.start_child_ready(stage.spec("a"))
        await sup.start_child_ready(ChildSpec("b", dies_at_its_stop))
        await performance.stop()
    (event,) = stage.told(EventKind.EXITED)
    assert (event.child, event.asked, event.exit.kind) == ("b", True, ExitKind.ABNORMAL)
    assert stage.told(EventKind.RESTARTING) == []


async def test_an_endless_failure_without_delay_neither_blocks_the_loop_nor_a_stop(stage, autojump_clock):
    stage.failing = {"a": FOREVER}
    sup = DynamicSupervisor(
        "d", Intensity(10**9, 1.0), restart=PERMANENT, backoff=Schedule((0.0,)), on_event=lambda _event: None
    )
    async with performing(sup):
        sup.start_child(stage.spec("a"))
        for _ in range(100):
            await trio.lowlevel.checkpoint()
        assert len(stage.attempts) > 5
        assert await sup.stop_child("a")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
async def test_what_ends_the_program_comes_out_after_all_children_stopped(stage, autojump_clock, error):
    sup = DynamicSupervisor("d", restart=PERMANENT, **stage.ports)
    with pytest.RaisesGroup(type(error), flatten_subgroups=True):
        async with performing(sup):
            for name in "abc":
                await sup.start_child_ready(stage.spec(name))
            await stage.end("b", error)
            await trio.sleep_forever()
    assert sorted(stage.took().split()[4:]) == ["-a", "-c"]
    assert len(sup) == 0


async def test_the_end_of_the_program_in_a_child_that_is_being_stopped_still_ends_the_rest(stage, autojump_clock):
    async def rude(status):
        status.started()
        try:
            await trio.sleep_forever()
        finally:
            raise KeyboardInterrupt

    stage.stubborn = {"a": 3.0}
    sup = DynamicSupervisor("d", **stage.ports)
    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True):
        async with performing(sup) as performance:
            await sup.start_child_ready(stage.spec("a"))
            await sup.start_child_ready(ChildSpec("rude", rude))
            await performance.stop()
    assert stage.took() == "+a -a"


async def test_an_ended_child_leaves_nothing_behind(autojump_clock):
    class Session:
        breaks = False

        async def run(self, status):
            status.started()
            await trio.sleep(1.0)
            if self.breaks:
                raise BrokenError(self)

    sup = DynamicSupervisor("d", on_event=lambda _event: None)
    async with performing(sup):
        kept = []
        for number, breaks in enumerate((False, True)):
            session = Session()
            session.breaks = breaks
            kept.append(weakref.ref(session))
            sup.start_child(ChildSpec(str(number), session.run))
        del session
        await trio.sleep(2.0)
        gc.collect()
        assert [reference() for reference in kept] == [None, None]


async def test_normal_life_is_not_told_but_every_exception_is(stage, autojump_clock):
    sup = DynamicSupervisor("d", **stage.ports)
    async with performing(sup):
        for name, how in (("a", "return"), ("b", "raise"), ("c", "shutdown")):
            await sup.start_child_ready(stage.spec(name))
            await stage.end(name, how)
        await sup.start_child_ready(stage.spec("d"))
        await sup.stop_child("d")
    assert [(event.kind, event.child, event.exit.kind) for event in stage.events] == [
        (EventKind.EXITED, "b", ExitKind.ABNORMAL),
        (EventKind.EXITED, "c", ExitKind.SHUTDOWN),
    ]


async def test_a_drop_listener_that_raises_ends_nobody(stage, autojump_clock, caplog):
    def bad(_child, _how):
        raise OSError("no disk")

    sup = DynamicSupervisor("d", Intensity(0, 30.0), restart=PERMANENT, on_dropped=bad, **stage.ports)
    async with performing(sup) as performance:
        await sup.start_child_ready(stage.spec("a"))
        await sup.start_child_ready(stage.spec("b"))
        await stage.end("a")
        assert set(sup.children()) == {"b"}
        assert not performance.over.is_set()
    assert "no disk" in caplog.text

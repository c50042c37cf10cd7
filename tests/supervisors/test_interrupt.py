"""Ctrl-C at its worst moments: inside the supervisor's own steps, and again during the ordered stop."""

from __future__ import annotations

import signal

import pytest
import trio
from trio.testing import MockClock

from supervisors.dynamic import DynamicSupervisor
from supervisors.events import EventKind
from supervisors.life import Life
from supervisors.supervisor import Supervisor
from tests.supervisors.stage import Stage, performing


def interrupt():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def python_interrupts():
    """SIGINT as a plain Python program has it, which is when trio delivers it as KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run(main):
    with pytest.RaisesGroup(KeyboardInterrupt, allow_unwrapped=True, flatten_subgroups=True):
        trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("when", [EventKind.STARTED, EventKind.EXITED, EventKind.RESTARTING])
def test_an_interrupt_inside_a_step_waits_for_its_end_and_stops_in_order(python_interrupts, when):
    stage = Stage()
    hits: list[object] = []

    def listener(event):
        if event.kind is when and event.child == "b" and not hits:
            hits.append(event)
            interrupt()

    async def main():
        sup = Supervisor("s", stage.specs("abc"), on_event=listener)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sup.run)
            await trio.testing.wait_all_tasks_blocked()
            stage.cue("b")
            await trio.sleep_forever()

    run(main)
    assert hits
    assert stage.alive == []
    ends = [entry for entry in stage.log if entry.startswith("-")]
    assert ends[-1] == "-a"


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_second_interrupt_during_the_stop_leaves_nobody_unasked(python_interrupts, kind):
    stage = Stage()
    stage.stubborn = dict.fromkeys("abc", 2.0)
    began = []

    async def main():
        began.append(trio.current_time())
        specs = stage.specs("abc")
        if kind == "static":
            await Supervisor("s", specs, **stage.ports).run(Interrupter())
        else:
            dynamic = DynamicSupervisor("d", **stage.ports)
            async with performing(dynamic):
                for spec in specs:
                    dynamic.start_child(spec)
                await trio.testing.wait_all_tasks_blocked()
                interrupt()
                await trio.sleep_forever()

    class Interrupter:
        def started(self, value=None):  # noqa: ARG002
            interrupt()

    original = Life.ask

    def ask(life, seconds):
        original(life, seconds)
        if not again:
            again.append(True)
            interrupt()

    again: list[bool] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Life, "ask", ask)
        run(main)
    assert again
    assert sorted(entry for entry in stage.log if entry.startswith("-")) == ["-a", "-b", "-c"]
    assert stage.alive == []


async def test_several_may_wait_for_one_life():
    life = Life()
    woken = []

    async def wait():
        await life.wait_change()
        woken.append(life.ready)

    async def start(status):
        status.started()
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await life.live(start)
    assert woken == [True, True]
    assert life.over

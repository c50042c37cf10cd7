"""The kernel: mailboxes, asking, the registry with its monitors, the sweeper, and the set of live runs."""

from __future__ import annotations

import itertools
from functools import partial
from types import SimpleNamespace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.live_runs import LiveRuns
from actors.mailbox import Mailbox, MailboxClosed, MailboxFull
from actors.ref import Promise, ask
from actors.registry import Registry, sweep
from volcanic.protocol.errors import A2AError, ErrorKind


class Actor:
    def __init__(self, last_used=0.0, *, busy=False):
        self.last_used = last_used
        self.busy = busy

    def evictable(self):
        return not self.busy


# -- mailbox


def test_a_full_mailbox_refuses_at_once_and_keeps_what_it_has():
    mailbox: Mailbox[int] = Mailbox(2)
    mailbox.put(1)
    mailbox.put(2)
    with pytest.raises(MailboxFull):
        mailbox.put(3)
    assert len(mailbox) == 2
    assert [mailbox.take(), mailbox.take(), mailbox.take()] == [1, 2, None]
    mailbox.put(4)
    assert mailbox.take() == 4


def test_the_actors_own_messages_go_beyond_the_capacity_and_keep_their_turn():
    mailbox: Mailbox[int] = Mailbox(1)
    mailbox.put(1)
    mailbox.put_own(2)
    with pytest.raises(MailboxFull):
        mailbox.put(3)
    assert [mailbox.take(), mailbox.take()] == [1, 2]


def test_a_closed_mailbox_gives_back_what_nobody_handled_and_takes_nothing_more():
    mailbox: Mailbox[int] = Mailbox(2)
    mailbox.put(1)
    mailbox.put(2)
    assert mailbox.close() == [1, 2]
    assert len(mailbox) == 0
    with pytest.raises(MailboxClosed):
        mailbox.put(3)
    with pytest.raises(MailboxClosed):
        mailbox.put_own(3)


@given(st.lists(st.one_of(st.integers(0, 9), st.none()), max_size=60), st.integers(1, 5))
def test_a_mailbox_is_a_bounded_queue(steps, capacity):
    mailbox: Mailbox[int] = Mailbox(capacity)
    model: list[int] = []
    for step in steps:
        if step is None:
            assert mailbox.take() == (model.pop(0) if model else None)
        elif len(model) < capacity:
            mailbox.put(step)
            model.append(step)
        else:
            with pytest.raises(MailboxFull):
                mailbox.put(step)
        assert len(mailbox) == len(model) <= capacity


async def test_a_waiting_actor_is_woken_by_each_message_in_order(autojump_clock):
    mailbox: Mailbox[int] = Mailbox(4)
    got: list[int] = []

    async def actor():
        for _ in range(3):
            got.append(await mailbox.get())  # noqa: PERF401 - one message at a time is the point

    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor)
        await trio.sleep(1)
        mailbox.put(1)
        await trio.sleep(1)
        assert got == [1]
        mailbox.put(2)
        mailbox.put_own(3)
    assert got == [1, 2, 3]


async def test_a_cancelled_wait_loses_no_message(autojump_clock):
    mailbox: Mailbox[int] = Mailbox(4)
    with trio.move_on_after(1) as scope:
        await mailbox.get()
    assert scope.cancelled_caught
    mailbox.put(1)
    assert await mailbox.get() == 1


# -- ask


async def test_an_ask_returns_the_answer_or_raises_the_refusal_and_only_the_first_counts():
    def answers(promise: Promise[str]) -> None:
        promise.answer("first")
        promise.answer("second")
        promise.refuse(A2AError(ErrorKind.INTERNAL))

    def refuses(promise: Promise[str]) -> None:
        promise.refuse(A2AError(ErrorKind.TASK_NOT_FOUND))
        promise.answer("too late")

    assert await ask(answers, 1) == "first"
    with pytest.raises(A2AError) as caught:
        await ask(refuses, 1)
    assert caught.value.kind is ErrorKind.TASK_NOT_FOUND


async def test_an_ask_without_an_answer_ends_at_its_deadline(autojump_clock):
    kept: list[Promise[str]] = []
    began = trio.current_time()
    with pytest.raises(trio.TooSlowError):
        await ask(kept.append, 7)
    assert trio.current_time() - began == pytest.approx(7)
    kept[0].answer("nobody waits any more")


# -- registry


def test_an_id_never_lives_twice_and_goes_with_its_actor():
    registry: Registry[str, Actor] = Registry()
    actor = Actor()
    registry.add("a", actor)
    with pytest.raises(KeyError):
        registry.add("a", Actor())
    assert registry.get("a") is actor
    assert list(registry) == [actor]
    registry.remove("a", "crash")
    assert registry.get("a") is None
    assert len(registry) == 0
    registry.remove("a", "again")
    registry.add("a", Actor())


def test_each_monitor_hears_once_why_its_actor_went():
    registry: Registry[str, Actor] = Registry()
    heard: list[tuple[str, str]] = []
    registry.add("a", Actor())
    registry.add("b", Actor())
    registry.monitor("a", lambda reason: heard.append(("one", reason)))
    registry.monitor("a", lambda reason: heard.append(("two", reason)))
    off = registry.monitor("a", lambda reason: heard.append(("off", reason)))
    registry.monitor("b", lambda reason: heard.append(("b", reason)))
    off()
    off()
    registry.remove("a", "crash")
    assert heard == [("one", "crash"), ("two", "crash")]
    registry.add("a", Actor())
    registry.remove("a", "idle")
    assert len(heard) == 2


def test_a_monitor_of_nobody_is_called_at_once():
    registry: Registry[str, Actor] = Registry()
    heard: list[str] = []
    registry.monitor("nobody", heard.append)()
    assert heard == ["noproc"]


def test_calling_off_the_last_monitor_leaves_nothing_behind():
    registry: Registry[str, Actor] = Registry()
    registry.add("a", Actor())
    heard: list[str] = []
    registry.monitor("a", heard.append)()
    registry.remove("a", "crash")
    assert heard == []


def test_eviction_takes_the_old_and_idle_alone_and_tells_their_monitors():
    registry: Registry[str, Actor] = Registry()
    registry.add("old", Actor(1.0))
    registry.add("busy", Actor(1.0, busy=True))
    registry.add("new", Actor(5.0))
    heard: list[str] = []
    registry.monitor("old", heard.append)
    assert registry.evict(5.0) == 1
    assert registry.get("old") is None
    assert registry.get("busy") is not None
    assert registry.get("new") is not None
    assert heard == ["idle"]


async def test_the_sweeper_evicts_within_a_quarter_of_the_idle_time_and_never_early(autojump_clock):
    registry: Registry[str, Actor] = Registry()
    gone: dict[str, float] = {}

    def note(key: str, reason: str) -> None:
        assert reason == "idle"
        gone[key] = trio.current_time() - began

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        for key, last_used, busy in (("idle", began, False), ("busy", began, True), ("used", began, False)):
            registry.add(key, Actor(last_used, busy=busy))
            registry.monitor(key, partial(note, key))
        await nursery.start(sweep, registry, 100.0)
        await trio.sleep(60)
        used, busy_one = registry.get("used"), registry.get("busy")
        assert used is not None
        assert busy_one is not None
        used.last_used = trio.current_time()
        await trio.sleep(200)
        assert 100 <= gone["idle"] <= 125 + 1
        assert 160 <= gone["used"] <= 185 + 1
        assert "busy" not in gone
        busy_one.busy = False
        await trio.sleep(26)
        assert len(registry) == 0
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("idle", "most"), [(0.01, 0.07), (100_000.0, 30.1)])
async def test_the_sweeper_neither_spins_nor_sleeps_for_long(autojump_clock, monkeypatch, idle, most):
    registry: Registry[str, Actor] = Registry()
    times: list[float] = []
    monkeypatch.setattr(registry, "evict", lambda _older_than: times.append(trio.current_time()))
    async with trio.open_nursery() as nursery:
        await nursery.start(sweep, registry, idle)
        await trio.sleep(most * 10)
        nursery.cancel_scope.cancel()
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(gaps) >= 8
    assert all(0.04 <= gap <= most for gap in gaps)


# -- live runs


async def test_whoever_waits_for_the_last_run_is_woken_by_its_end_alone(autojump_clock):
    runs = LiveRuns()
    first, second = SimpleNamespace(task_id="1"), SimpleNamespace(task_id="2")
    runs.add(first)  # type: ignore[arg-type]
    runs.add(second)  # type: ignore[arg-type]
    assert "1" in runs
    assert len(runs) == 2
    ended: list[float] = []

    async def wait():
        await runs.none_left()
        ended.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(wait)
        await trio.sleep(1)
        runs.remove(first)  # type: ignore[arg-type]
        await trio.sleep(1)
        assert not ended
        runs.remove(second)  # type: ignore[arg-type]
    assert ended == [began + 2]
    await runs.none_left()
    assert runs.get("1") is None

"""One follower: credit, a bounded buffer, and an end that comes once and last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.subscription import INITIAL_CREDIT, Subscription

LIMIT = 1000
FULL = b"x" * INITIAL_CREDIT


class Sink:
    def __init__(self):
        self.got = []
        self.ends = []

    def event(self, version, payload):
        assert not self.ends, "an event after the end"
        self.got.append((version, payload))

    def end(self, reason):
        self.ends.append(reason)


@pytest.fixture
def sink():
    return Sink()


def subscribed(sink, *, used_up=True, limit=LIMIT):
    subscription = Subscription(sink, limit, until_interrupted=False)
    if used_up:
        subscription.offer(1, FULL)
        sink.got.clear()
    return subscription


def test_within_its_credit_a_follower_gets_everything_at_once(sink):
    subscription = subscribed(sink, used_up=False)
    for version in range(1, 5):
        subscription.offer(version, b"x" * (INITIAL_CREDIT // 4))
    assert [version for version, _ in sink.got] == [1, 2, 3, 4]
    subscription.offer(5, b"x")
    assert len(sink.got) == 4


def test_without_credit_events_wait_and_come_in_order_when_more_is_granted(sink):
    subscription = subscribed(sink)
    for version in (2, 3, 4):
        subscription.offer(version, b"x" * 300)
    assert sink.got == []
    subscription.grant(301)
    assert [version for version, _ in sink.got] == [2, 3]  # the second one overdraws, so that no size stops a stream
    subscription.grant(300)
    assert [version for version, _ in sink.got] == [2, 3, 4]
    assert sink.ends == []


def test_an_event_that_comes_while_others_wait_does_not_overtake_them(sink):
    subscription = subscribed(sink)
    subscription.offer(2, b"x" * 10)
    subscription._credit = 5
    subscription.offer(3, b"y")
    assert sink.got == []
    subscription.grant(100)
    assert [version for version, _ in sink.got] == [2, 3]


def test_a_follower_whose_buffer_is_full_is_dropped_once_and_hears_no_more(sink):
    subscription = subscribed(sink)
    subscription.offer(2, b"x" * LIMIT)
    assert not subscription.ended
    subscription.offer(3, b"y")
    assert subscription.ended
    assert sink.ends == ["slow"]
    subscription.offer(4, b"z")
    subscription.grant(INITIAL_CREDIT)
    subscription.close()
    assert sink.got == []
    assert sink.ends == ["slow"]


def test_a_single_event_larger_than_the_buffer_waits_alone(sink):
    subscription = subscribed(sink)
    subscription.offer(2, b"x" * (LIMIT * 50))
    assert not subscription.ended
    subscription.grant(1)
    assert len(sink.got) == 1
    assert not subscription.ended
    subscription.offer(3, b"y")
    subscription.grant(LIMIT * 50)
    assert [version for version, _ in sink.got] == [2, 3]


def test_a_close_comes_after_what_waits_and_lets_nothing_in_before_it(sink):
    subscription = subscribed(sink)
    subscription.offer(2, b"x" * 10)
    subscription.offer(3, b"y" * 10)
    subscription.close("drain")
    subscription.close("lost")
    subscription.offer(4, b"late")
    assert sink.ends == []
    subscription.grant(1)
    assert sink.ends == []
    subscription.grant(20)
    assert [version for version, _ in sink.got] == [2, 3]
    assert sink.ends == ["drain"]
    subscription.grant(20)
    assert sink.ends == ["drain"]


def test_a_close_with_nothing_waiting_ends_at_once(sink):
    subscription = subscribed(sink)
    subscription.close()
    assert subscription.ended
    assert sink.ends == [""]


def test_an_abandoned_follower_hears_nothing_more_whatever_was_to_come(sink):
    subscription = subscribed(sink)
    subscription.offer(2, b"x")
    subscription.close()
    subscription.abandon()
    subscription.grant(INITIAL_CREDIT)
    assert sink.got == []
    assert sink.ends == []
    assert subscription.ended


def test_who_abandons_from_within_an_event_gets_no_further_one():
    class Leaver(Sink):
        def event(self, version, payload):
            super().event(version, payload)
            subscription.abandon()

    leaver = Leaver()
    subscription = Subscription(leaver, LIMIT, until_interrupted=False)
    subscription._credit = 0
    subscription.offer(1, b"x")
    subscription.offer(2, b"x")
    subscription.close()
    subscription.grant(100)
    assert len(leaver.got) == 1
    assert leaver.ends == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.integers(1, 200_000)),
        st.tuples(st.just("grant"), st.integers(1, 300_000)),
        st.tuples(st.just("close"), st.just(0)),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 400_000))
def test_what_a_follower_gets_is_a_beginning_of_what_was_offered_and_no_more_is_held_than_allowed(script, limit):
    sink = Sink()
    subscription = Subscription(sink, limit, until_interrupted=False)
    offered = []
    granted = INITIAL_CREDIT
    closed = False
    for action, size in script:
        if action == "offer":
            if not (closed or subscription.ended):
                offered.append((len(offered), b"x" * size))
            subscription.offer(len(offered) - 1, b"x" * size)
        elif action == "grant":
            subscription.grant(size)
            granted += size
        else:
            closed = True
            subscription.close()
        assert sink.got == offered[: len(sink.got)]
        sent = [len(payload) for _, payload in sink.got]
        assert not sent or sum(sent[:-1]) < granted, "sent without credit"
        waiting = [payload for _, payload in subscription._buffer]
        assert len(waiting) <= 1 or sum(map(len, waiting)) <= limit
        assert len(sink.ends) <= 1
        if not waiting and closed:
            assert subscription.ended
    if sink.ends == [""]:
        assert sink.got == offered, "a natural end without all that came before it"

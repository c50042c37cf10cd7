import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.backoff import AT_ONCE_THEN_GROWING, Backoff, Schedule


def test_exponential_delays_up_to_the_cap():
    backoff = Backoff(first=0.1, factor=2.0, cap=1.0)
    assert [backoff.delay(attempt) for attempt in range(1, 7)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_a_schedule_repeats_its_last_delay():
    assert [Schedule((1.0, 5.0, 15.0)).delay(attempt) for attempt in range(1, 6)] == [1.0, 5.0, 15.0, 15.0, 15.0]


def test_the_supervisors_default_begins_at_once_and_ends_at_a_second():
    assert AT_ONCE_THEN_GROWING.delay(1) == 0.0
    assert AT_ONCE_THEN_GROWING.delay(10**9) == 1.0


@given(
    first=st.floats(1e-6, 100),
    factor=st.floats(1, 1e9),
    cap=st.floats(1e-6, 1e6),
    attempt=st.integers(1, 10**6),
    jitter=st.floats(0, 1),
    number=st.floats(0, 1, exclude_max=True),
)
def test_a_delay_is_never_negative_nor_over_the_cap_and_never_shrinks(*, first, factor, cap, attempt, jitter, number):
    backoff = Backoff(first, factor, max(first, cap), jitter)
    plain = backoff.delay(attempt)
    assert 0 < plain <= backoff.cap
    assert backoff.delay(attempt + 1) >= plain
    spread = backoff.delay(attempt, lambda: number)
    assert plain * (1 - jitter) - 1e-9 <= spread <= plain
    assert backoff.delay(attempt, lambda: number) == spread


def test_jitter_shortens_by_its_share():
    assert Schedule((10.0,), jitter=0.5).delay(1, lambda: 0.5) == 7.5
    assert Schedule((10.0,), jitter=0.5).delay(1) == 10.0


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Backoff(0.0),
        lambda: Backoff(2.0, cap=1.0),
        lambda: Backoff(0.1, factor=0.5),
        lambda: Backoff(0.1, cap=math.inf),
        lambda: Backoff(math.nan),
        lambda: Backoff(0.1, jitter=1.5),
        lambda: Schedule(()),
        lambda: Schedule((1.0, -1.0)),
        lambda: Schedule((math.inf,)),
        lambda: Schedule((1.0,), jitter=-0.1),
        lambda: Backoff(0.1).delay(0),
        lambda: Schedule((1.0,)).delay(0),
    ],
)
def test_what_makes_no_sense_is_refused(bad):
    with pytest.raises(ValueError, match=r"backoff|schedule|jitter|attempts"):
        bad()

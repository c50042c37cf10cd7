from __future__ import annotations

import pytest

from volcanic.protocol import states
from volcanic.protocol.types import TaskState

S = TaskState
LEGAL = {
    (S.UNSPECIFIED, S.SUBMITTED),
    (S.UNSPECIFIED, S.WORKING),
    (S.SUBMITTED, S.WORKING),
    (S.SUBMITTED, S.FAILED),
    (S.SUBMITTED, S.CANCELED),
    (S.SUBMITTED, S.REJECTED),
    (S.WORKING, S.WORKING),
    (S.WORKING, S.COMPLETED),
    (S.WORKING, S.FAILED),
    (S.WORKING, S.CANCELED),
    (S.WORKING, S.REJECTED),
    (S.WORKING, S.INPUT_REQUIRED),
    (S.WORKING, S.AUTH_REQUIRED),
    *(
        (waiting, then)
        for waiting in (S.INPUT_REQUIRED, S.AUTH_REQUIRED)
        for then in (S.SUBMITTED, S.WORKING, S.FAILED, S.CANCELED)
    ),
}


@pytest.mark.parametrize("old", TaskState)
@pytest.mark.parametrize("new", TaskState)
def test_the_table_of_transitions(old, new):
    assert states.allows(old, new) is ((old, new) in LEGAL)


@pytest.mark.parametrize("state", TaskState)
def test_each_state_is_of_one_kind(state):
    kinds = [states.is_terminal(state), states.is_interrupted(state), states.is_active(state)]
    assert sum(kinds) == (state is not S.UNSPECIFIED)
    assert states.ends_blocking(state) is (kinds[0] or kinds[1])
    assert (not states.TRANSITIONS[state]) is kinds[0]

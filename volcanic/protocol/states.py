"""The life of a task as a table (a2a.md#task-lifecycle; spec §3.1, §4.1.3).

The 1.0 rules only: the older profile that may revive a finished task does so with a new run of its own, beside this
table.
"""

from __future__ import annotations

from typing import Final

from volcanic.protocol.types import TaskState

TERMINAL: Final = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})
"""No way out: no message, no cancel, no subscription."""

INTERRUPTED: Final = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
"""Waiting for the caller; survives restarts; a message with the task's id continues it."""

ACTIVE: Final = frozenset({TaskState.SUBMITTED, TaskState.WORKING})
"""A live run stands behind it; without one it is settled as failed."""

TRANSITIONS: Final[dict[TaskState, frozenset[TaskState]]] = {
    TaskState.UNSPECIFIED: ACTIVE,
    TaskState.SUBMITTED: frozenset(
        {TaskState.WORKING, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED},
    ),
    TaskState.WORKING: frozenset({TaskState.WORKING}) | TERMINAL | INTERRUPTED,
    TaskState.INPUT_REQUIRED: ACTIVE | {TaskState.FAILED, TaskState.CANCELED},
    TaskState.AUTH_REQUIRED: ACTIVE | {TaskState.FAILED, TaskState.CANCELED},
    TaskState.COMPLETED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.CANCELED: frozenset(),
    TaskState.REJECTED: frozenset(),
}
"""What may follow what. `UNSPECIFIED` stands for "not yet made"; WORKING repeats for each status note."""


def is_terminal(state: TaskState) -> bool:
    """Tell whether a task in this state is over."""
    return state in TERMINAL


def is_interrupted(state: TaskState) -> bool:
    """Tell whether a task in this state waits for its caller."""
    return state in INTERRUPTED


def is_active(state: TaskState) -> bool:
    """Tell whether a task in this state must have a live run."""
    return state in ACTIVE


def ends_blocking(state: TaskState) -> bool:
    """Tell whether a blocking SendMessage returns at this state (spec §3.2.2)."""
    return state in TERMINAL or state in INTERRUPTED


def allows(old: TaskState, new: TaskState) -> bool:
    """Tell whether a task may go from `old` to `new`."""
    return new in TRANSITIONS[old]

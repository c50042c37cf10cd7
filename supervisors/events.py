"""What a supervisor tells about its children while it works: the one way by which an abnormal exit reaches a log."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable

import attrs

from supervisors.exits import Exit, ExitKind

_log = logging.getLogger("supervisors")


class EventKind(enum.StrEnum):
    """What happened."""

    STARTED = "child started"
    EXITED = "child exited"
    START_FAILED = "child failed to start"
    RESTARTING = "child restarts"
    UNSTOPPABLE = "child ignores its cancellation"
    DROPPED = "child dropped: over its intensity"
    ESCALATED = "supervisor gives up: over its intensity"


@attrs.frozen(kw_only=True)
class Event:
    """One thing that happened to one child.

    `exit` is set for exits, failed starts, drops and escalations and holds the exception itself. `asked` says that the
    exit answered a stop. `delay` (seconds) belongs to RESTARTING. A `DynamicSupervisor` tells neither STARTED nor
    exits without an error: it may have a hundred thousand children.
    """

    kind: EventKind
    supervisor: str
    child: str
    incarnation: int
    exit: Exit | None = None
    asked: bool = False
    delay: float = 0.0


OnEvent = Callable[[Event], None]

_FIRST_TOLD = (EventKind.EXITED, EventKind.START_FAILED)
"""The kinds that bring an exception; later ones about the same exit repeat it without its traceback."""


def log_event(event: Event) -> None:
    """Tell an event to the standard library's log, the default where no `on_event` is given: errors with traceback."""
    error = None if event.exit is None else event.exit.error
    bad = event.exit is not None and event.exit.kind is ExitKind.ABNORMAL
    level = logging.ERROR if bad or event.kind is EventKind.UNSTOPPABLE else logging.INFO
    _log.log(
        level,
        "%s: supervisor=%s child=%s incarnation=%d exit=%s delay=%g",
        event.kind.value,
        event.supervisor,
        event.child,
        event.incarnation,
        event.exit,
        event.delay,
        exc_info=error if bad and event.kind in _FIRST_TOLD else None,
    )


def guarded(name: str, call: Callable[[], None]) -> bool:
    """Make a call out of supervision; False when it raised. The error is logged: it must not end what is kept alive."""
    try:
        call()
    except Exception:  # noqa: BLE001 - whatever a listener does, supervision goes on
        _log.exception("%s raised", name)
        return False
    return True


def tell(on_event: OnEvent, event: Event) -> None:
    """Hand an event over; when the listener raises, the event goes to the log instead."""
    if not guarded("on_event", lambda: on_event(event)):
        log_event(event)

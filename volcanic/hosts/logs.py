"""Logs: structured, on stderr, JSON off a terminal, and never with a key in them."""

from __future__ import annotations

import logging
import traceback

import structlog

from supervisors.events import Event, EventKind
from supervisors.exits import ExitKind, ProcessExited
from volcanic.hosts.stderr import is_terminal, stderr_logger
from volcanic.redact import scrub_event

_log = structlog.get_logger("volcanic")


class _ToStructlog(logging.Handler):
    """What libraries log through the standard library, as events of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        _log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


def configure_logs(process: str) -> None:
    """Set up logging for this process; every line says which process it is from."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if is_terminal() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            scrub_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=stderr_logger,
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(process=process)
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    root.setLevel(logging.WARNING)


def log_child(event: Event) -> None:
    """Log what a supervisor tells of its children: starts at debug, restarts and failures where they are seen."""
    details: dict[str, object] = {
        "supervisor": event.supervisor,
        "child": event.child,
        "incarnation": event.incarnation,
    }
    error = None if event.exit is None else event.exit.error
    normal = event.exit is not None and event.exit.kind is not ExitKind.ABNORMAL
    if event.kind is EventKind.STARTED or (event.kind is EventKind.EXITED and (event.asked or normal)):
        _log.debug(event.kind.value, **details)
    elif event.kind is EventKind.RESTARTING:
        _log.info(event.kind.value, delay=event.delay, **details)
    elif isinstance(error, ProcessExited):
        # Its text says it all; the traceback would be root's own waiting.
        _log.warning(event.kind.value, reason=str(error), **details)
    else:
        _log.warning(event.kind.value, **details, exc_info=error)


def log_crash(name: str, error: BaseException) -> None:
    """Log what ended a process."""
    text = "".join(traceback.format_exception(error))
    _log.critical("process_crashed", child=name, error=repr(error), exception=text)


def log_line(text: str) -> None:
    """Log a line of the launcher."""
    _log.info("launcher", what=text)

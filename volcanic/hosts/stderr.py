"""Standard error as a log's last stop: a line that cannot be written now is dropped and counted, never waited for.

A log whose disk is full, whose reader is gone, or whose terminal is held (Ctrl-S) must neither end nor stop a process.
"""

from __future__ import annotations

import os
import select

PIECE = 4096
"""A pipe that is writable takes this much without blocking (PIPE_BUF)."""

STDERR = 2


class StderrLogger:
    """The end of structlog's chain: writes each line to descriptor 2 if that can be done without waiting."""

    def __init__(self) -> None:
        self.dropped = 0
        """Lines lost since the last one that was written."""

    def msg(self, message: str) -> None:
        """Write one line, after a word about those that were lost before it."""
        lost = f'{{"event": "log_lines_lost", "lines": {self.dropped}}}\n' if self.dropped else ""
        if _write(f"{lost}{message}\n".encode("utf-8", "backslashreplace")):
            self.dropped = 0
        else:
            self.dropped += 1

    log = debug = info = warn = warning = error = critical = exception = fatal = msg


_LOGGER = StderrLogger()


def stderr_logger(*_args: object) -> StderrLogger:
    """Return the process's one logger (structlog's logger factory)."""
    return _LOGGER


def is_terminal() -> bool:
    """Tell whether standard error is a terminal; a closed one is none."""
    try:
        return os.isatty(STDERR)
    except OSError:
        return False


def _write(data: bytes) -> bool:
    poll = select.poll()
    poll.register(STDERR, select.POLLOUT)
    try:
        while data:
            if not any(state & select.POLLOUT for _, state in poll.poll(0)):
                return False
            data = data[os.write(STDERR, data[:PIECE]) :]
    except OSError:
        return False
    return True

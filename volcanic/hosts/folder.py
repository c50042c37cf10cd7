"""The folder host: one folder is a workspace; behind each of its callers' contexts stands an isolated session."""

from __future__ import annotations

import datetime as dt
import os
import zoneinfo
from collections.abc import Sequence

import trio

from actors.asking import HeldWrites
from volcanic.agent.bus import SessionBus
from volcanic.agent.framing import external_frame, inbound_prompt, local_time
from volcanic.agent.models.port import Model
from volcanic.agent.session import AgentSession, Prompt
from volcanic.agent.system_prompt import PromptSource
from volcanic.agent.tools.verdicts import verdict_tools
from volcanic.clock import Clock
from volcanic.protocol.ids import scope
from volcanic.protocol.types import Message
from volcanic.redact import KEYS
from volcanic.storage.callers import load
from volcanic.storage.disk import Disk
from volcanic.storage.layout import WorkspaceLayout
from volcanic.storage.transcripts import TranscriptFile

SCOPE_PREFIX = "folder"


class FolderAssistant:
    """What a folder puts behind its sessions (`actors.asking.Assistant`)."""

    def __init__(self, layout: WorkspaceLayout, model: Model, disk: Disk, clock: Clock, timezone: str) -> None:
        self._layout = layout
        self._model = model
        self._disk = disk
        self._clock = clock
        self._zone, self._zone_name = time_zone(timezone)
        self._tools = verdict_tools()
        self._prompts = PromptSource(layout.root, self._tools, clock=clock)

    def prompt(self, caller: str, message: Message, task_id: str, accepted: Sequence[str]) -> Prompt:
        """Return a caller's message, framed, with the local time."""
        header = local_time(self._clock.wall(), self._zone, self._zone_name)
        frame = external_frame(caller, notifier=False)
        return inbound_prompt(message, frame, task_id=task_id, header=header, accepted=accepted)

    async def open(self, caller: str, context_id: str, held: HeldWrites) -> AgentSession:
        """Open or resume an isolated session; persona, instructions and memory are read now."""
        name = scope(SCOPE_PREFIX, caller, context_id)
        file = TranscriptFile(self._layout.session(name), self._layout.root)
        return AgentSession(
            self._model,
            self._tools,
            self._prompts.current(),
            SessionTranscript(file, self._layout.session(name), self._disk, held),
            SessionBus(),
            session_id=name,
            clock=self._clock,
        )

    def redact(self, text: str) -> str:
        """Return a text without the keys of this workspace."""
        load(self._layout)
        return KEYS.scrub(text)


class SessionTranscript:
    """A session's transcript (`agent.transcript.TranscriptPort`) whose lines share trips to the disk with its task."""

    def __init__(self, file: TranscriptFile, folder: str, disk: Disk, held: HeldWrites) -> None:
        self._file = file
        self._folder = folder
        self._disk = disk
        self._held = held

    async def load(self) -> Sequence[bytes]:
        """Return the messages so far; a long transcript is read in a thread."""
        if not os.path.isdir(self._folder):  # noqa: PTH112, ASYNC240 - one stat: most sessions are new
            return self._file.load()
        return await trio.to_thread.run_sync(self._file.load)

    async def append(self, messages: Sequence[bytes], *, last: bool) -> None:
        """Store messages; the last of a run wait for the task's outcome."""
        ops = self._file.append_ops(messages)
        if last:
            self._held.hold(*ops)
        else:
            await self._disk.submit(*self._held.take(), *ops)


def time_zone(name: str) -> tuple[dt.tzinfo, str]:
    """Return the zone called `name`, or the system's, with the name to show."""
    if name:
        return zoneinfo.ZoneInfo(name), name
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named:
        target = os.path.realpath("/etc/localtime")
        named = target.partition("zoneinfo/")[2]
    try:
        return zoneinfo.ZoneInfo(named), named
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return dt.UTC, "UTC"

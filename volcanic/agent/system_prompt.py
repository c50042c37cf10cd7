"""The system prompt: who the assistant is, what it may call, what the workspace says (agent-core facts, section 6)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from volcanic.agent.context_files import ContextFile, ContextFiles, FileStates, file_states, load_context
from volcanic.clock import SYSTEM, Clock
from volcanic.extension import Tool

_log = structlog.get_logger(__name__)

_PREAMBLE = "You are the assistant of the person who owns this workspace, and you work in its folder."


def system_prompt(context: ContextFiles, tools: Sequence[Tool], workspace: str, rules: Sequence[str] = ()) -> str:
    """Return the system prompt of a session.

    Args:
        context: The workspace's context files.
        tools: The session's tools.
        workspace: The folder it works in, as its tools see it.
        rules: Further rules of the host, one line each.
    """
    sections = [_PREAMBLE]
    if context.persona is not None:
        sections.append(_file("Who you are", context.persona))
    if tools:
        sections.append("# Tools\n" + "\n".join(f"- {tool.name}: {tool.description}" for tool in tools))
    if rules:
        sections.append("# Rules\n" + "\n".join(f"- {rule}" for rule in rules))
    if context.instructions is not None:
        sections.append(_file("Instructions of this workspace", context.instructions))
    if context.memory is not None:
        sections.append(_file("What you remember", context.memory))
    sections.append(f"Working folder: {workspace}")
    return "\n\n".join(sections)


class PromptSource:
    """The system prompt of a workspace's sessions, always as its files are now.

    The files are read again only when one of them changed, and sessions share the text. A file that is there and cannot
    be used is logged once for each of its states.
    """

    def __init__(
        self, workspace: str, tools: Sequence[Tool], rules: Sequence[str] = (), *, clock: Clock = SYSTEM
    ) -> None:
        self._workspace = workspace
        self._tools = tools
        self._rules = rules
        self._clock = clock
        self._prompt = ""
        self._states: FileStates | None = None
        self._logged: tuple[str, ...] = ()

    def current(self) -> str:
        """Return the prompt. Blocks for a few stat calls, and for reading small files when one has changed."""
        now = self._clock.wall()
        # Taken before the files are read: what changes meanwhile is seen the next time.
        states = file_states(self._workspace)
        if self._states is None or states.stamps != self._states.stamps:
            context = load_context(self._workspace)
            if context.warnings != self._logged:
                self._logged = context.warnings
                for warning in context.warnings:
                    _log.warning("context_file_not_used", workspace=self._workspace, problem=warning)
            self._prompt = system_prompt(context, self._tools, self._workspace, self._rules)
            self._states = states if states.settled(now) else None
        return self._prompt


def _file(title: str, file: ContextFile) -> str:
    return f"# {title} ({file.name})\n{file.text.strip()}"

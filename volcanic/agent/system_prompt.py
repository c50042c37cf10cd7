"""The system prompt: who the assistant is, what it may call, what the workspace says (agent-core facts, section 6)."""

from __future__ import annotations

from collections.abc import Sequence

from volcanic.agent.context_files import ContextFile, ContextFiles
from volcanic.extension import Tool

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


def _file(title: str, file: ContextFile) -> str:
    return f"# {title} ({file.name})\n{file.text.strip()}"

"""The faux model's script as data, and what it plays for a message (source: the facts about the script)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs

from volcanic.agent.messages import Message, UserMessage
from volcanic.agent.models.faux_steps import Say, Steps
from volcanic.agent.repair import count_prompts

ECHO: Steps = (Say("{text}"),)
"""What is played when no rule matches."""


@attrs.frozen
class Rule:
    """What to play: steps of its own, or the turns of a name."""

    steps: Steps | None
    turns: str


@attrs.frozen
class Choice:
    """What a message brought up: the steps, and what placeholders stand for in them."""

    steps: Steps
    names: dict[str, str]


_Match = tuple[Rule, dict[str, str]]


@attrs.frozen
class Script:
    """A checked script. Without rules it echoes.

    Attributes:
        by_id: Rules by prefix of the message id, longest first.
        by_text: Rules by prefix of the first text part, longest first.
        by_regex: Rules by pattern, searched in the sender's whole text, in the order of the file.
        turns: Step lists for successive messages to one task; the last one is repeated.
        chunk: Characters of text in one event.
        tokens_per_second: Pace of the text (a token is four characters), or None for at once.
        counts_runs: Whether `{n}` occurs.
    """

    by_id: tuple[tuple[str, Rule], ...] = ()
    by_text: tuple[tuple[str, Rule], ...] = ()
    by_regex: tuple[tuple[re.Pattern[str], Rule], ...] = ()
    turns: Mapping[str, tuple[Steps, ...]] = attrs.field(factory=dict)
    chunk: int = 12
    tokens_per_second: float | None = None
    counts_runs: bool = False

    def choose(self, messages: Sequence[Message], newest: UserMessage) -> Choice:
        """Return what to play for `newest`, the newest user message of `messages`.

        A rule that matches it decides. Without one, a task that an earlier message bound to `turns` goes on with them;
        else the sender's text is echoed.
        """
        match = self._match(newest)
        if match is not None and match[0].steps is not None:
            steps, names = match[0].steps, match[1]
        elif self.turns:
            steps, names = self._turn(messages, newest)
        else:
            steps, names = ECHO, {}
        names = {"text": newest.sender_text(), "result": "", **names}
        if self.counts_runs:
            names["n"] = str(count_prompts(messages))
        return Choice(steps, names)

    def _match(self, message: UserMessage) -> _Match | None:
        for prefix, rule in self.by_id:
            if message.message_id.startswith(prefix):
                return rule, {}
        if self.by_text:
            text = message.first_text()
            for prefix, rule in self.by_text:
                if text.startswith(prefix):
                    return rule, {}
        if self.by_regex:
            text = message.sender_text()
            for pattern, rule in self.by_regex:
                found = pattern.search(text)
                if found is not None:
                    return rule, found.groupdict("")
        return None

    def _turn(self, messages: Sequence[Message], newest: UserMessage) -> tuple[Steps, dict[str, str]]:
        bound, names = "", dict[str, str]()
        played: dict[str, int] = {}
        for message in messages:
            if not isinstance(message, UserMessage) or message.task_id != newest.task_id:
                continue
            match = self._match(message)
            if match is not None:
                if match[0].steps is not None:
                    continue
                bound, names = match[0].turns, match[1]
            if bound:
                played[bound] = played.get(bound, 0) + 1
        if not bound:
            return ECHO, {}
        lists = self.turns[bound]
        return lists[min(played[bound], len(lists)) - 1], names

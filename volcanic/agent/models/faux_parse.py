"""Reading a faux script: every fault is named with the rule, the step and the key it stands at."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from volcanic.agent.models.faux_check import ScriptError, members, number, require, sequence, text, whole
from volcanic.agent.models.faux_parse_steps import read_steps
from volcanic.agent.models.faux_script import Rule, Script
from volcanic.agent.models.faux_steps import Steps

__all__ = ["RESERVED", "ScriptError", "parse_script"]

RESERVED = ("text", "n", "result")
"""Placeholders that no regex group may be named as."""

_MATCHERS = ("messageIdPrefix", "textPrefix", "textRegex")


def parse_script(data: bytes) -> Script:
    """Return the script in `data`, a JSON document.

    Raises:
        ScriptError: one line that says what is wrong and where.
    """
    try:
        document = msgspec.json.decode(data)
        counts_runs = b"{n}" in msgspec.json.encode(document)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ScriptError(f"not a JSON document: {error}") from error
    top = members(document, "the script", {"rules", "turns", "chunk", "tokensPerSecond"})
    turns = _read_turns(top.get("turns", {}))
    rules = [
        _read_rule(rule, f"rule {at}", turns)
        for at, rule in enumerate(sequence(top.get("rules", []), "rules"), start=1)
    ]
    pace = top.get("tokensPerSecond")
    return Script(
        by_id=_longest_first(rules, "messageIdPrefix"),
        by_text=_longest_first(rules, "textPrefix"),
        by_regex=tuple((_compile(pattern, where), rule) for kind, pattern, where, rule in rules if kind == "textRegex"),
        turns=turns,
        chunk=whole(top.get("chunk", 12), "chunk", least=1),
        tokens_per_second=None if pace is None else number(pace, "tokensPerSecond", above=0),
        counts_runs=counts_runs,
    )


_Entry = tuple[str, str, str, Rule]
"""Which matcher a rule has, its value, how to name the rule in an error, and the rule."""


def _read_turns(value: object) -> dict[str, tuple[Steps, ...]]:
    turns: dict[str, tuple[Steps, ...]] = {}
    for name, lists in members(value, "turns", None).items():
        where = f'turns "{name}"'
        steps = tuple(
            read_steps(one, f"{where}, turn {at}", first=at == 1)
            for at, one in enumerate(sequence(lists, where), start=1)
        )
        require(bool(steps), where, "has no turns")
        turns[name] = steps
    return turns


def _read_rule(value: object, where: str, turns: dict[str, tuple[Steps, ...]]) -> _Entry:
    rule = members(value, where, {*_MATCHERS, "steps", "turns"})
    kinds = [kind for kind in _MATCHERS if kind in rule]
    require(len(kinds) == 1, where, f"needs exactly one of {', '.join(_MATCHERS)}")
    kind = kinds[0]
    pattern = text(rule[kind], f"{where}, {kind}")
    where = f"{where} ({kind} {_quoted(pattern)})"
    require(("steps" in rule) != ("turns" in rule), where, "needs exactly one of steps, turns")
    if "steps" in rule:
        return kind, pattern, where, Rule(read_steps(rule["steps"], where, first=True), "")
    name = text(rule["turns"], f"{where}, turns")
    require(name in turns, where, f'there are no turns "{name}"')
    return kind, pattern, where, Rule(None, name)


def _longest_first(rules: Iterable[_Entry], kind: str) -> tuple[tuple[str, Rule], ...]:
    found: dict[str, Rule] = {}
    for its_kind, prefix, where, rule in rules:
        if its_kind == kind:
            require(prefix not in found, where, "an earlier rule has the same prefix, so this one never matches")
            found[prefix] = rule
    return tuple(sorted(found.items(), key=lambda entry: -len(entry[0])))


def _compile(pattern: str, where: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ScriptError(f"{where}: not a regular expression: {error}") from error
    for name in compiled.groupindex:
        require(name not in RESERVED, where, f"a group may not be named {name}: it has a meaning of its own")
    return compiled


def _quoted(pattern: str) -> str:
    return msgspec.json.encode(pattern).decode()

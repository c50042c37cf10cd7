"""Reading the steps of a faux script."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence

import msgspec

from volcanic.agent.models import faux_steps
from volcanic.agent.models.faux_check import ScriptError, boolean, members, number, require, sequence, text, whole
from volcanic.extension import VerdictState
from volcanic.protocol import types

END_STATES: Mapping[str, VerdictState] = {
    "completed": VerdictState.COMPLETED,
    "failed": VerdictState.FAILED,
    "rejected": VerdictState.REJECTED,
    "input-required": VerdictState.INPUT_REQUIRED,
    "auth-required": VerdictState.AUTH_REQUIRED,
    "canceled": VerdictState.CANCELED,
}

_EXTRA_KEYS = {"tool": {"arguments"}, "end": {"text"}, "error": {"retryable"}}
_ARTIFACT_KEYS = {"artifactId", "name", "description", "parts", "metadata", "extensions", "append", "lastChunk"}
_PART_CONTENTS = ("text", "data", "raw", "rawText", "url")
_PART_KEYS = {*_PART_CONTENTS, "metadata", "filename", "mediaType"}

_LONGEST_SECONDS = 366 * 24 * 3600.0
_SHOWN = (
    faux_steps.Say,
    faux_steps.Status,
    faux_steps.Artifact,
    faux_steps.Calls,
    faux_steps.Direct,
    faux_steps.StopAtLength,
)
_SILENT = (faux_steps.Delay, faux_steps.Think, faux_steps.Allocate, faux_steps.Spin, faux_steps.Exit)
_FINAL = (faux_steps.End, faux_steps.StopAtLength, faux_steps.Raise, faux_steps.Exit)


def read_steps(value: object, where: str, *, first: bool) -> faux_steps.Steps:
    """Return the steps in `value`; `first` says that they may be the first ones of a task.

    Raises:
        ScriptError: what is wrong, and where.
    """
    places = [(step, f"{where}, step {at}") for at, step in enumerate(sequence(value, f"{where}, steps"), start=1)]
    steps = [_read_step(step, place) for step, place in places]
    _check_order(steps, [place for _, place in places], first=first)
    return tuple(steps)


def _read_step(value: object, where: str) -> faux_steps.Step:
    step = members(value, where, None)
    kinds = [key for key in step if key in _READERS and not (key == "text" and "end" in step)]
    require(len(kinds) < 2, where, f"has more than one effect: {', '.join(kinds)}")  # noqa: PLR2004
    unknown = next((key for key in step if key not in kinds and key not in _EXTRA_KEYS.get("".join(kinds), ())), None)
    require(unknown is None, where, f'unknown key "{unknown}"')
    require(bool(kinds), where, "has no effect")
    return _READERS[kinds[0]](step, where)


def _check_order(steps: Sequence[faux_steps.Step], places: Sequence[str], *, first: bool) -> None:
    shown = direct = ended = False
    for step, place in zip(steps, places, strict=True):
        require(not ended, place, "is never played: the run ends before it")
        if isinstance(step, faux_steps.Direct):
            require(first, place, "message answers in place of a task, but the task exists by then")
            require(not shown, place, "message may only come before anything else that is shown")
            direct = True
        elif direct:
            silent = isinstance(
                step, faux_steps.Delay | faux_steps.Think | faux_steps.Allocate | faux_steps.Spin | faux_steps.Exit
            )
            ends = isinstance(step, faux_steps.End) and step.state is VerdictState.COMPLETED and not step.text
            require(silent or ends, place, "nothing may be shown after message")
        shown = shown or isinstance(step, _SHOWN)
        ended = isinstance(step, _FINAL) or (isinstance(step, faux_steps.Fail) and not step.retryable)


def _string(step: Mapping[str, object], key: str, where: str) -> str:
    return text(step[key], f'{where}, key "{key}"')


def _seconds(step: Mapping[str, object], key: str, where: str) -> float:
    where = f'{where}, key "{key}"'
    seconds = number(step[key], where, least=0)
    require(seconds <= _LONGEST_SECONDS, where, "is longer than a year")
    return seconds


def _read_artifact(step: Mapping[str, object], where: str) -> faux_steps.Artifact:
    where = f"{where}, artifact"
    body = dict(members(step["artifact"], where, _ARTIFACT_KEYS))
    append = boolean(body.pop("append", False), f'{where}, key "append"')
    last_chunk = boolean(body.pop("lastChunk", False), f'{where}, key "lastChunk"')
    parts = sequence(body.get("parts"), f'{where}, key "parts"')
    require(bool(parts), where, "has no parts")
    body["parts"] = [_check_part(part, f"{where}, part {at}") for at, part in enumerate(parts, start=1)]
    for key in ("artifactId", "name"):
        require(key not in body or bool(_string(body, key, where)), where, f'key "{key}" is empty')
    if "artifactId" not in body and "name" in body:
        body["artifactId"] = body["name"]
    require(not append or "artifactId" in body, where, "append needs an artifactId or a name to say what it extends")
    complete = faux_steps.Artifact({"artifactId": "minted", **body}, append, last_chunk)
    try:
        msgspec.json.decode(complete.render({}), type=types.Artifact)
        require(isinstance(body.get("metadata", {}), dict), where, 'key "metadata" must be an object')
    except (msgspec.MsgspecError, RecursionError, OverflowError, UnicodeError) as error:
        raise ScriptError(f"{where}: {error}") from error
    return faux_steps.Artifact(body, append, last_chunk)


def _check_part(value: object, where: str) -> dict[str, object]:
    part = members(value, where, _PART_KEYS)
    contents = [key for key in _PART_CONTENTS if key in part]
    require(len(contents) == 1, where, f"needs exactly one of {', '.join(_PART_CONTENTS)}")
    for key in ("text", "raw", "rawText", "url", "filename", "mediaType"):
        require(key not in part or isinstance(part[key], str), where, f'key "{key}" must be a string')
    require(isinstance(part.get("metadata", {}), dict), where, 'key "metadata" must be an object')
    if "raw" in part:
        try:
            binascii.a2b_base64(_string(part, "raw", where), strict_mode=True)
        except (binascii.Error, ValueError) as error:
            raise ScriptError(f'{where}: key "raw" is not base64') from error
    return part


def _read_call(value: object, where: str) -> faux_steps.Call:
    call = members(value, where, {"tool", "arguments"})
    require("tool" in call, where, 'needs the key "tool"')
    arguments = members(call.get("arguments", {}), f'{where}, key "arguments"', None)
    try:
        faux_steps.fill_json(arguments, {})
    except RecursionError as error:
        raise ScriptError(f"{where}: nested too deeply") from error
    return faux_steps.Call(_string(call, "tool", where), arguments)


def _read_calls(step: Mapping[str, object], where: str) -> faux_steps.Calls:
    calls = sequence(step["tools"], f'{where}, key "tools"')
    require(bool(calls), where, 'key "tools" is empty')
    return faux_steps.Calls(tuple(_read_call(call, f"{where}, tool {at}") for at, call in enumerate(calls, start=1)))


def _read_end(step: Mapping[str, object], where: str) -> faux_steps.End:
    state = _string(step, "end", where)
    require(state in END_STATES, where, f'end must be one of {", ".join(END_STATES)}, not "{state}"')
    return faux_steps.End(END_STATES[state], _string(step, "text", where) if "text" in step else "")


def _read_stop(step: Mapping[str, object], where: str) -> faux_steps.StopAtLength:
    require(step["stop"] == "length", where, 'stop must be "length"')
    return faux_steps.StopAtLength()


def _read_fail(step: Mapping[str, object], where: str) -> faux_steps.Fail:
    retryable = boolean(step.get("retryable", False), f'{where}, key "retryable"')
    return faux_steps.Fail(_string(step, "error", where), retryable)


def _read_allocate(step: Mapping[str, object], where: str) -> faux_steps.Allocate:
    return faux_steps.Allocate(whole(step["allocate"], f'{where}, key "allocate"', least=0, most=1024 * 1024))


_READERS: Mapping[str, Callable[[Mapping[str, object], str], faux_steps.Step]] = {
    "text": lambda step, where: faux_steps.Say(_string(step, "text", where)),
    "thinking": lambda step, where: faux_steps.Think(_string(step, "thinking", where)),
    "delay": lambda step, where: faux_steps.Delay(_seconds(step, "delay", where)),
    "status": lambda step, where: faux_steps.Status(_string(step, "status", where)),
    "artifact": _read_artifact,
    "tool": lambda step, where: faux_steps.Calls((_read_call(step, where),)),
    "tools": _read_calls,
    "message": lambda step, where: faux_steps.Direct(_string(step, "message", where)),
    "end": _read_end,
    "stop": _read_stop,
    "error": _read_fail,
    "raise": lambda step, where: faux_steps.Raise(_string(step, "raise", where)),
    "allocate": _read_allocate,
    "spin": lambda step, where: faux_steps.Spin(_seconds(step, "spin", where)),
    "exit": lambda step, where: faux_steps.Exit(whole(step["exit"], f'{where}, key "exit"', least=0, most=255)),
}

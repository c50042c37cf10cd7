"""From flags, environment and `volcanic.toml` to one checked `Settings`, or one line that says what is wrong where."""

from __future__ import annotations

import difflib
import functools
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, final

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from volcanic.config import values
from volcanic.config.settings import (
    LEAVES,
    A2ASettings,
    CardSettings,
    Leaf,
    LimitSettings,
    ServiceSettings,
    Settings,
)

DEFAULT_FILE = "volcanic.toml"
_FILE_BYTES = 1024 * 1024
_SHOWN = 80
_SECTIONS = (CardSettings, LimitSettings, A2ASettings, ServiceSettings)


class ConfigError(Exception):
    """A setting that cannot be used; its text is one line: which, from where, its value, what is accepted."""


@final
@attrs.frozen
class _Given:
    """A value before it is checked: its source's rank (higher wins), its spelling, the folder its paths count from."""

    value: object
    rank: int
    spelling: str
    folder: str

    def refuse(self, accepted: str) -> ConfigError:
        """Return the error that refuses this value."""
        return ConfigError(f"{self.spelling}: {_shown(self.value)} is not {accepted}")


_FILE, _ENVIRONMENT, _FLAG = 1, 2, 3


def load(flags: Mapping[str, object], env: Mapping[str, str], folder: str) -> Settings:
    """Return the settings that these flags (`--port` to its value), this environment and the file make.

    A flag that is None, False or empty counts as not given, an empty environment variable likewise. Relative paths
    count from `folder`, those in the file from the file's own folder. Blocks for one small read.

    Raises:
        ConfigError: a value is refused, a key is unknown, two settings exclude each other, the file cannot be read.
    """
    given: dict[tuple[str, ...], _Given] = {}
    _take_flags(flags, folder, given)
    _take_environment(env, folder, given)
    _take_file(given.get(("service", "config_file")), folder, given)
    _choose_model(given)
    settings = _structure(given)
    _check_together(settings, given)
    service = settings.service
    faux = service.faux or bool(service.faux_script)
    state = service.state_dir or default_state_dir(env, service.workspaces[0] if service.workspaces else "")
    return attrs.evolve(settings, service=attrs.evolve(service, faux=faux, state_dir=state))


def default_state_dir(env: Mapping[str, str], workspace: str) -> str:
    """Return where a service over this (first) workspace keeps its state: a folder of its own, so that several can run.

    It is named after the workspace, with a hash of its whole path.
    """
    home = env.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):  # noqa: PTH117 - the XDG rules: a relative one is ignored
        home = os.path.expanduser("~/.local/state")  # noqa: PTH111
    if not workspace:
        return f"{home}/volcanic"
    name = re.sub(r"[^A-Za-z0-9_-]", "", os.path.basename(workspace))[:32]  # noqa: PTH119
    return f"{home}/volcanic/{name or 'workspace'}-{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:8]}"


def _take_flags(flags: Mapping[str, object], folder: str, given: dict[tuple[str, ...], _Given]) -> None:
    known = {leaf.spelling.flag: leaf for leaf in LEAVES if leaf.spelling.flag}
    for flag, value in flags.items():
        leaf = known[flag]
        if value is not None and value is not False and value not in ("", (), []):
            given[leaf.path] = _Given(value, _FLAG, flag, folder)


def _take_environment(env: Mapping[str, str], folder: str, given: dict[tuple[str, ...], _Given]) -> None:
    known = {_fold(leaf.spelling.env): leaf for leaf in LEAVES}
    seen: dict[tuple[str, ...], str] = {}
    for name, value in sorted(env.items()):
        leaf = known.get(_fold(name))
        if leaf is None:
            if name.startswith("A2A__"):
                names = [leaf.spelling.env for leaf in LEAVES]
                raise ConfigError(f"{name} (environment) is no setting{_closest(name, names)}")
            continue
        if not value.strip():
            continue
        if leaf.path in seen:
            raise ConfigError(f"{seen[leaf.path]} and {name} (environment) are the same setting: keep one")
        seen[leaf.path] = name
        if leaf.path not in given:
            given[leaf.path] = _Given(value, _ENVIRONMENT, f"{name} (environment)", folder)


def _fold(name: str) -> str:
    """Return a name for comparison: exact in its prefix, case-blind after it."""
    for prefix in ("A2A__", "VOLCANIC_"):
        if name.startswith(prefix):
            return prefix + name.removeprefix(prefix).lower()
    return name


def _closest(name: str, names: Iterable[str]) -> str:
    """Return words that propose the setting meant; names are compared whole and by their last part."""
    known: dict[str, str] = {}
    for candidate in names:
        folded = candidate.lower().replace("__", ".")
        known.setdefault(folded.rpartition(".")[2], candidate)
        known[folded.partition(".")[2]] = candidate
    folded = name.lower().replace("__", ".")
    tails = (folded.partition(".")[2], folded.rpartition(".")[2])
    close = [found for tail in tails if tail for found in difflib.get_close_matches(tail, known, n=1, cutoff=0.6)]
    return f"; did you mean {known[close[0]]}?" if close else ""


def _take_file(named: _Given | None, folder: str, given: dict[tuple[str, ...], _Given]) -> None:
    name = str(named.value).strip() if named is not None else DEFAULT_FILE
    path = os.path.abspath(os.path.join(folder, os.path.expanduser(name)))  # noqa: PTH100, PTH111, PTH118
    if named is None and not os.path.lexists(path):
        return
    leaves = {leaf.doc.name.lower(): leaf for leaf in LEAVES if leaf.path != ("service", "config_file")}
    for key, value in _flat(_read_toml(path), leaves, ""):
        leaf = leaves.get(key.lower())
        if leaf is None:
            names = [leaf.doc.name for leaf in leaves.values()]
            raise ConfigError(f"{key} in {path} is no setting{_closest(key, names)}")
        if leaf.path not in given:
            given[leaf.path] = _Given(value, _FILE, f"{key} in {path}", os.path.dirname(path))  # noqa: PTH120


def _flat(table: Mapping[str, Any], leaves: Mapping[str, Leaf], prefix: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name.lower() not in leaves:
            is_section = any(leaf.startswith(f"{name.lower()}.") for leaf in leaves)
            found.extend(_flat(value, leaves, f"{name}.") if is_section else [(name, value)])
        else:
            found.append((name, value))
    return found


def _read_toml(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path).decode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not valid TOML: it is not UTF-8 text") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {' '.join(str(error).split())}") from None


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _FILE_BYTES:
            raise ConfigError(f"{path} is not a settings file: it must be a regular file of at most 1 MiB")
        parts: list[bytes] = []
        while part := os.read(handle, _FILE_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def _choose_model(given: dict[tuple[str, ...], _Given]) -> None:
    """Keep the one way to name a model that the strongest source gives: --faux beats VOLCANIC_MODEL."""
    ways = [("service", "model"), ("service", "faux"), ("service", "faux_script")]
    if _is_off(given.get(ways[1])):
        del given[ways[1]]
    named = {way: given[way] for way in ways if way in given}
    if not named:
        return
    strongest = max(value.rank for value in named.values())
    chosen = [way for way, value in named.items() if value.rank == strongest]
    if ways[0] in chosen and len(chosen) > 1:
        both = " and ".join(named[way].spelling for way in chosen)
        raise ConfigError(f"{both} exclude each other: name one model")
    for way in named:
        if way not in chosen:
            del given[way]


def _is_off(given: _Given | None) -> bool:
    try:
        return given is not None and not values.switch(given.value)
    except ValueError:
        return False  # refused with the other values


def _structure(given: Mapping[tuple[str, ...], _Given]) -> Settings:
    tree: dict[str, Any] = {}
    for path, value in given.items():
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = value
    try:
        return _CONVERTER.structure(tree, Settings)
    except cattrs.BaseValidationError as error:
        raise _first_refusal(error) from None


def _first_refusal(error: BaseException) -> ConfigError:
    """Return the first refused value in an error of cattrs, which groups them by class."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, ConfigError), error
    return error


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for section in (*_SECTIONS, Settings):
        hooks = {
            leaf.path[-1]: override(struct_hook=functools.partial(_value_of, leaf))
            for leaf in LEAVES
            if _owner(leaf) is section
        }
        make: Any = make_dict_structure_fn  # its keywords are the fields' names, which its type cannot say
        converter.register_structure_hook(section, make(section, converter, **hooks))
    return converter


def _owner(leaf: Leaf) -> type[attrs.AttrsInstance]:
    kind: type[attrs.AttrsInstance] = Settings
    for name in leaf.path[:-1]:
        kind = getattr(attrs.fields(kind), name).type
    return kind


def _value_of(leaf: Leaf, given: _Given, _type: object) -> object:
    try:
        value = leaf.spelling.parse(given.value)
    except ValueError as error:
        raise given.refuse(str(error)) from None
    if not leaf.spelling.is_path:
        return value
    if isinstance(value, tuple):
        return tuple(_absolute(item, given.folder) for item in value)
    return _absolute(str(value), given.folder)


def _absolute(path: str, folder: str) -> str:
    return os.path.abspath(os.path.join(folder, os.path.expanduser(path)))  # noqa: PTH100, PTH111, PTH118


def _check_together(settings: Settings, given: Mapping[tuple[str, ...], _Given]) -> None:
    service = settings.service
    if bool(service.certfile) != bool(service.keyfile):
        there, missing = ("certfile", "keyfile") if service.certfile else ("keyfile", "certfile")
        raise ConfigError(f"{given['service', there].spelling} needs --{missing} as well")
    folders = [os.path.realpath(folder) for folder in service.workspaces]
    for folder in folders:
        if folders.count(folder) > 1:
            raise ConfigError(f"{given['service', 'workspaces'].spelling}: {folder} is named twice")


def _shown(value: object) -> str:
    shown = value if isinstance(value, str) and value.isprintable() and value else repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


_CONVERTER = _converter()

"""What can be set. Each field carries how it is spelled, read and explained; `SETTINGS` is the table made of them.

Sources: a2a.md#configuration; the design's command line. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TypeVar, cast, final

import attrs

from volcanic.config import values
from volcanic.config.choices import DEFAULT_INPUT_MODES, CancelOnDisconnect

T = TypeVar("T")


_MANY = 2**40
_SPELLING = "spelling"


@final
@attrs.frozen
class Spelling:
    """How one setting is written and read.

    Attributes:
        env: Its environment variable.
        meaning: What it does, in a sentence.
        parse: Makes its value, or raises `ValueError` with the words that say what is accepted.
        flag: Its command-line flag; empty when it has none.
        default: Its default as the tables show it.
        is_path: It names files; relative ones count from where the setting is written.
    """

    env: str
    meaning: str
    parse: Callable[[object], object]
    flag: str = ""
    default: str = ""
    is_path: bool = False


def _setting(default: T, spelling: Spelling) -> T:
    return attrs.field(default=default, metadata={_SPELLING: spelling})


def _number(low: int, high: int) -> Callable[[object], object]:
    return functools.partial(values.whole, low, high)


def _cancel_on_disconnect(value: object) -> CancelOnDisconnect:
    try:
        return CancelOnDisconnect(value.strip().lower() if isinstance(value, str) else "")
    except ValueError:
        raise ValueError("blocking, always or never") from None


@final
@attrs.frozen
class CardSettings:
    """The public card, and the extended card of a workspace without a `card.json`."""

    name: str = _setting(
        "Volcanic assistant",
        Spelling(
            "A2A__Card__Name", "Name on the public card, and on a workspace's without one in card.json", values.text
        ),
    )
    description: str = _setting(
        "A personal assistant that other agents can talk to.",
        Spelling(
            "A2A__Card__Description",
            "Description on the public card, and on a workspace's without card.json and PERSONA.md",
            values.text,
        ),
    )


@final
@attrs.frozen
class LimitSettings:
    """What one client may use; 0 is no limit."""

    body_bytes: int = _setting(
        32 * 1024 * 1024,
        Spelling("A2A__Limits__BodyBytes", "Longest request body, in bytes; 0: no limit", _number(0, _MANY)),
    )
    body_seconds: float = _setting(
        30.0,
        Spelling("A2A__Limits__BodySeconds", "Time a request body may take to arrive; 0: no limit", values.duration),
    )
    stream_buffer_bytes: int = _setting(
        256 * 1024,
        Spelling(
            "A2A__Limits__StreamBufferBytes",
            "What may wait, in bytes, for a client that reads its stream slowly before it is dropped; 0: no limit",
            _number(0, _MANY),
        ),
    )
    connections: int = _setting(
        4096,
        Spelling("A2A__Limits__Connections", "Open connections of an edge process; 0: no limit", _number(0, 1_000_000)),
    )


@final
@attrs.frozen
class A2ASettings:
    """Being called: section `A2A`, environment `A2A__…`."""

    enabled: bool = _setting(
        False,
        Spelling(
            "A2A__Enabled",
            "Serve A2A from the Telegram host; with --workspace it is always served",
            values.switch,
            default="false",
        ),
    )
    public_url: str = _setting(
        "",
        Spelling(
            "A2A__PublicUrl",
            "External base URL for the card's interfaces; unset, it is taken from each request",
            values.base_url,
            default="unset",
        ),
    )
    max_hops: int = _setting(
        3, Spelling("A2A__MaxHops", "A message that came over more agents than this fails at once", _number(0, 1000))
    )
    session_idle_timeout: float = _setting(
        1800.0,
        Spelling(
            "A2A__SessionIdleTimeout",
            "A session without messages for this long leaves memory; its transcript brings it back",
            values.positive_duration,
            default="00:30:00",
        ),
    )
    max_file_bytes: int = _setting(
        10 * 1024 * 1024, Spelling("A2A__MaxFileBytes", "Cap per file part, in and out, in bytes", _number(1, _MANY))
    )
    allow_private_push_urls: bool = _setting(
        False,
        Spelling(
            "A2A__AllowPrivatePushUrls",
            "Allow http and private addresses for webhooks and downloads: for tests and private networks",
            values.switch,
            default="false",
        ),
    )
    cancel_on_disconnect: CancelOnDisconnect = _setting(  # noqa: RUF009 - this makes the field, not its default
        CancelOnDisconnect.BLOCKING,
        Spelling(
            "A2A__CancelOnDisconnect",
            "Cancel a run whose client leaves: blocking (a SendMessage that waits for its new task), always "
            "(streams and continuations too), never",
            _cancel_on_disconnect,
        ),
    )
    input_modes: tuple[str, ...] = _setting(
        DEFAULT_INPUT_MODES,
        Spelling(
            "A2A__InputModes",
            "Media types and ranges a message may carry, separated by commas; */* takes all",
            values.media_ranges,
            default="text, images, audio, video, common documents and archives",
        ),
    )
    card: CardSettings = attrs.field(factory=CardSettings)
    limits: LimitSettings = attrs.field(factory=LimitSettings)


@final
@attrs.frozen
class ServiceSettings:
    """The service itself: its folders, model, listener and processes. Section `volcanic`, environment `VOLCANIC_…`.

    Paths are absolute. At most one of `model` and `faux` is set; a `faux_script` sets `faux`. `edges` and `workers` of
    0 leave the number to the service, an empty `timezone` is the system's.
    """

    workspaces: tuple[str, ...] = _setting(
        (),
        Spelling(
            "VOLCANIC_WORKSPACE",
            "Folder to serve, made if missing; several: repeat the flag, or separate them by : in the environment",
            values.paths,
            "--workspace",
            default="none",
            is_path=True,
        ),
    )
    model: str = _setting(
        "",
        Spelling("VOLCANIC_MODEL", "The model, as PROVIDER:NAME", values.model, "--model", default="none"),
    )
    faux: bool = _setting(
        False,
        Spelling("VOLCANIC_FAUX", "Use the built-in echoing model", values.switch, "--faux", default="false"),
    )
    faux_script: str = _setting(
        "",
        Spelling(
            "VOLCANIC_FAUX_SCRIPT",
            "Use the built-in model with the rules of this file",
            values.text,
            "--faux-script",
            default="none",
            is_path=True,
        ),
    )
    host: str = _setting("127.0.0.1", Spelling("VOLCANIC_HOST", "Address to listen on", values.text, "--host"))
    port: int = _setting(
        5099, Spelling("VOLCANIC_PORT", "Port to listen on; 0 takes a free one", _number(0, 65535), "--port")
    )
    edges: int = _setting(
        0,
        Spelling(
            "VOLCANIC_EDGES",
            "Processes that speak HTTP; 0: by the number of processors",
            _number(0, 256),
            "--edges",
        ),
    )
    workers: int = _setting(
        0,
        Spelling(
            "VOLCANIC_WORKERS",
            "Processes that run agents; 0: by the number of processors",
            _number(0, 256),
            "--workers",
        ),
    )
    certfile: str = _setting(
        "",
        Spelling(
            "VOLCANIC_CERTFILE",
            "TLS certificate chain (PEM); with --keyfile it turns HTTPS on",
            values.text,
            "--certfile",
            default="none",
            is_path=True,
        ),
    )
    keyfile: str = _setting(
        "",
        Spelling(
            "VOLCANIC_KEYFILE", "The certificate's key (PEM)", values.text, "--keyfile", default="none", is_path=True
        ),
    )
    h2c: bool = _setting(
        False,
        Spelling(
            "VOLCANIC_H2C", "Speak HTTP/2 without TLS by prior knowledge", values.switch, "--h2c", default="false"
        ),
    )
    demo: bool = _setting(
        False,
        Spelling(
            "VOLCANIC_DEMO",
            "Make a caller named demo in a workspace without callers.json, and print a curl line for it",
            values.switch,
            "--demo",
            default="false",
        ),
    )
    state_dir: str = _setting(
        "",
        Spelling(
            "VOLCANIC_STATE",
            "Folder for sockets and live logs",
            values.text,
            default="a folder of the workspace's own in volcanic/ below the XDG state home",
            is_path=True,
        ),
    )
    timezone: str = _setting(
        "",
        Spelling(
            "VOLCANIC_TIMEZONE",
            "Time zone of the local-time header, such as Europe/Berlin",
            values.time_zone,
            default="the system's",
        ),
    )
    shutdown_seconds: float = _setting(
        10.0,
        Spelling("VOLCANIC_SHUTDOWN_SECONDS", "Time a stop gives to what is running", values.duration, default="10s"),
    )
    heartbeat_seconds: float = _setting(
        10.0,
        Spelling(
            "VOLCANIC_HEARTBEAT_SECONDS",
            "A process that shows no sign of life for this long is killed and replaced",
            values.positive_duration,
            default="10s",
        ),
    )
    config_file: str = _setting(
        "",
        Spelling(
            "VOLCANIC_CONFIG",
            "The settings file",
            values.text,
            "--config",
            default="volcanic.toml in the current folder, if there is one",
            is_path=True,
        ),
    )


@final
@attrs.frozen
class Settings:
    """Every setting of the service, checked."""

    a2a: A2ASettings = attrs.field(factory=A2ASettings)
    service: ServiceSettings = attrs.field(factory=ServiceSettings)


@final
@attrs.frozen
class SettingDoc:
    """One row of the settings table: `name` is its name in `volcanic.toml`; an empty `flag` means that it has none."""

    name: str
    env: str
    flag: str
    default: str
    meaning: str
    repeats: bool = False
    switch: bool = False


@final
@attrs.frozen
class Leaf:
    """One setting as the loader sees it: the attributes that lead to it, its spelling and its row."""

    path: tuple[str, ...]
    spelling: Spelling
    doc: SettingDoc


def _file_name(env: str) -> str:
    """Return a setting's name in the file: `A2A__Card__Name` is `A2A.Card.Name`, `VOLCANIC_PORT` is `volcanic.port`."""
    if env.startswith("VOLCANIC_"):
        return f"volcanic.{env.removeprefix('VOLCANIC_').lower()}"
    return env.replace("__", ".")


def _leaves(kind: type[attrs.AttrsInstance], path: tuple[str, ...]) -> Iterator[Leaf]:
    kind = attrs.resolve_types(kind)
    for field in attrs.fields(kind):
        here = (*path, field.name)
        spelling = field.metadata.get(_SPELLING)
        if not isinstance(spelling, Spelling):
            yield from _leaves(cast("type[attrs.AttrsInstance]", field.type), here)
            continue
        shown = spelling.default or str(field.default)
        doc = SettingDoc(
            name=_file_name(spelling.env),
            env=spelling.env,
            flag=spelling.flag,
            default=shown,
            meaning=spelling.meaning,
            repeats=field.default == (),
            switch=isinstance(field.default, bool),
        )
        yield Leaf(here, spelling, doc)


LEAVES: tuple[Leaf, ...] = tuple(_leaves(Settings, ()))

SETTINGS: tuple[SettingDoc, ...] = tuple(leaf.doc for leaf in LEAVES)
"""Every setting, in the order of the tables."""

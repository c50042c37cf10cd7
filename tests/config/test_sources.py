"""Where a setting comes from, which source wins, and the one line that says what is wrong."""

from __future__ import annotations

import os
import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanic.config import SETTINGS, A2ASettings, CancelOnDisconnect, ConfigError, Settings, load


@pytest.fixture
def toml(tmp_path):
    def write(text, name="volcanic.toml"):
        (tmp_path / name).write_text(text)
        return str(tmp_path)

    return write


def _refusal(flags, env, folder):
    try:
        load(flags, env, folder)
    except ConfigError as error:
        return str(error)
    return ""


def _refused(flags, env, folder="/nowhere"):
    with pytest.raises(ConfigError) as caught:
        load(flags, env, folder)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_the_defaults_are_the_seeds():
    settings = load({}, {"HOME": "/home/x"}, "/nowhere")
    assert settings.a2a == A2ASettings()
    assert settings.a2a.enabled is False
    assert settings.a2a.max_hops == 3
    assert settings.a2a.session_idle_timeout == 1800
    assert settings.a2a.max_file_bytes == 10485760
    assert settings.a2a.allow_private_push_urls is False
    assert settings.a2a.public_url == ""
    assert settings.a2a.card.name == "Volcanic assistant"
    assert settings.a2a.card.description
    assert settings.a2a.cancel_on_disconnect is CancelOnDisconnect.BLOCKING
    assert (settings.a2a.limits.body_bytes, settings.a2a.limits.body_seconds) == (32 * 2**20, 30)
    assert (settings.a2a.limits.stream_buffer_bytes, settings.a2a.limits.connections) == (2**18, 4096)
    service = settings.service
    assert (service.host, service.port, service.workspaces, service.model) == ("127.0.0.1", 5099, (), "")
    assert (service.faux, service.h2c, service.demo, service.edges, service.workers) == (False, False, False, 0, 0)


def test_flags_beat_the_environment_beats_the_file(toml):
    folder = toml("[volcanic]\nport = 1\nhost = 'file'\nedges = 1\n")
    settings = load({"--port": "3", "--workers": None}, {"VOLCANIC_PORT": "2", "VOLCANIC_HOST": "env"}, folder)
    assert (settings.service.port, settings.service.host, settings.service.edges) == (3, "env", 1)


def test_every_setting_can_come_from_the_environment_and_the_file(toml):
    values = {
        "A2A.Enabled": "true", "A2A.PublicUrl": "https://a.example", "A2A.MaxHops": "5", "A2A.SessionIdleTimeout": "1h",
        "A2A.MaxFileBytes": "7", "A2A.AllowPrivatePushUrls": "yes", "A2A.CancelOnDisconnect": "Always",
        "A2A.InputModes": "text/plain", "A2A.Card.Name": "N", "A2A.Card.Description": "D", "A2A.Limits.BodyBytes": "1",
        "A2A.Limits.BodySeconds": "2", "A2A.Limits.StreamBufferBytes": "3", "A2A.Limits.Connections": "4",
        "volcanic.workspace": "/w", "volcanic.model": "p:n", "volcanic.faux": "true", "volcanic.faux_script": "/f",
        "volcanic.host": "::", "volcanic.port": "1", "volcanic.edges": "2", "volcanic.workers": "3", "volcanic.certfile": "/c",
        "volcanic.keyfile": "/k", "volcanic.h2c": "true", "volcanic.demo": "true", "volcanic.state": "/s",
        "volcanic.timezone": "Europe/Berlin", "volcanic.shutdown_seconds": "3", "volcanic.heartbeat_seconds": "4",
        "volcanic.config": "/nowhere/volcanic.toml",
    }  # fmt: skip
    assert set(values) == {setting.name for setting in SETTINGS}
    default = load({}, {"HOME": "/h"}, "/nowhere")
    pairs = {"volcanic.certfile": "VOLCANIC_KEYFILE", "volcanic.keyfile": "VOLCANIC_CERTFILE"}
    for setting in SETTINGS:
        if setting.name == "volcanic.config":
            continue
        other = {pairs[setting.name]: "/x"} if setting.name in pairs else {}
        by_env = load({}, {"HOME": "/h", setting.env: values[setting.name], **other}, "/nowhere")
        table, _, key = setting.name.rpartition(".")
        folder = toml(f'[{table}]\n{key} = "{values[setting.name]}"\n')
        by_file = load({}, {"HOME": "/h", **other}, folder)
        assert by_env == by_file != default, setting.name


def test_every_flag_of_the_command_line_is_a_setting():
    assert {setting.flag for setting in SETTINGS if setting.flag} == {
        "--workspace", "--faux", "--faux-script", "--model", "--host", "--port", "--edges", "--workers", "--config", "--certfile",
        "--keyfile", "--h2c", "--demo",
    }  # fmt: skip
    assert [setting.flag for setting in SETTINGS if setting.repeats] == ["--workspace"]
    assert {setting.flag for setting in SETTINGS if setting.switch} == {"", "--faux", "--h2c", "--demo"}


def test_names_are_case_blind_after_their_prefix():
    settings = load({}, {"A2A__MAXHOPS": "1", "A2A__card__NAME": "N", "VOLCANIC_port": "2"}, "/nowhere")
    assert (settings.a2a.max_hops, settings.a2a.card.name, settings.service.port) == (1, "N", 2)
    assert load({}, {"a2a__maxhops": "9", "volcanic_port": "9"}, "/nowhere").a2a.max_hops == 3


def test_names_in_the_file_are_case_blind(toml):
    folder = toml("[a2a]\nmaxhops = 1\n[A2A.card]\nNAME = 'N'\n[Volcanic]\nPort = 2\n")
    # two spellings of one table are two tables in TOML; both count
    settings = load({}, {}, folder)
    assert (settings.a2a.max_hops, settings.a2a.card.name, settings.service.port) == (1, "N", 2)


@pytest.mark.parametrize(
    ("flags", "env", "line"),
    [
        ({"--port": "x"}, {}, "--port: x is not a whole number from 0 to 65535"),
        ({}, {"VOLCANIC_PORT": "70000"}, "VOLCANIC_PORT (environment): 70000 is not a whole number from 0 to 65535"),
        ({}, {"A2A__MaxHops": "three"}, "A2A__MaxHops (environment): three is not a whole number from 0 to 1000"),
        ({}, {"A2A__MaxHop": "3"}, "A2A__MaxHop (environment) is no setting; did you mean A2A__MaxHops?"),
        ({}, {"A2A__zzz": "3"}, "A2A__zzz (environment) is no setting"),
        (
            {},
            {"A2A__CancelOnDisconnect": "perhaps"},
            "A2A__CancelOnDisconnect (environment): perhaps is not blocking, always or never",
        ),
        (
            {},
            {"A2A__MaxHops": "1", "A2A__maxhops": "1"},
            "A2A__MaxHops and A2A__maxhops (environment) are the same setting: keep one",
        ),
        ({"--model": "x"}, {}, "--model: x is not PROVIDER:NAME"),
        ({"--model": "a:b", "--faux": True}, {}, "--model and --faux exclude each other: name one model"),
        (
            {},
            {"VOLCANIC_MODEL": "a:b", "VOLCANIC_FAUX_SCRIPT": "f"},
            "VOLCANIC_MODEL (environment) and VOLCANIC_FAUX_SCRIPT (environment) exclude each other: name one model",
        ),
        ({"--certfile": "c.pem"}, {}, "--certfile needs --keyfile as well"),
        ({}, {"VOLCANIC_KEYFILE": "k.pem"}, "VOLCANIC_KEYFILE (environment) needs --certfile as well"),
        ({"--workspace": ("/a", "/b", "/a/")}, {}, "--workspace: /a is named twice"),
        ({"--config": "none.toml"}, {}, "/nowhere/none.toml cannot be read: No such file or directory"),
        ({"--config": "/"}, {}, "/ is not a settings file: it must be a regular file of at most 1 MiB"),
        ({}, {"VOLCANIC_HOST": "a\nb"}, "VOLCANIC_HOST (environment): 'a\\nb' is not one line of text, not blank"),
        ({}, {"VOLCANIC_FAUX": "perhaps"}, "VOLCANIC_FAUX (environment): perhaps is not true or false"),
    ],
)
def test_a_bad_value_is_one_clear_line(flags, env, line):
    assert _refused(flags, env) == line


def test_a_long_value_is_shortened():
    assert len(_refused({}, {"VOLCANIC_PORT": "9" * 10_000})) < 200


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[A2A]\nMaxHops = 'x'\n", "A2A.MaxHops in {path}: x is not a whole number from 0 to 1000"),
        ("[A2A]\nMaxHop = 3\n", "A2A.MaxHop in {path} is no setting; did you mean A2A.MaxHops?"),
        ("[volcanic]\nprot = 3\n", "volcanic.prot in {path} is no setting; did you mean volcanic.port?"),
        ("port = 3\n", "port in {path} is no setting; did you mean volcanic.port?"),
        ("[volcanic.port]\nx = 3\n", "volcanic.port in {path}: {{'x': 3}} is not a whole number from 0 to 65535"),
        ("[volcanic]\nconfig = 'other.toml'\n", "volcanic.config in {path} is no setting"),
        ("[A2A]\nCard = 'x'\n", "A2A.Card in {path} is no setting; did you mean A2A.Card.Name?"),
        ("[A2A.Cards]\nName = 'x'\n", "A2A.Cards in {path} is no setting"),
        ("a = [1, 2\n", "{path} is not valid TOML: "),
        ("a = " + "[" * 100_000, "{path} is not valid TOML: "),
    ],
)
def test_a_bad_file_is_one_clear_line(toml, text, line):
    folder = toml(text)
    assert _refused({}, {}, folder).startswith(line.format(path=f"{folder}/volcanic.toml"))


def test_a_file_that_is_not_text_or_no_file_is_one_clear_line(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    assert _refused({"--config": f"{tmp_path}/a.toml"}, {}).endswith("is not valid TOML: it is not UTF-8 text")
    os.mkfifo(tmp_path / "f.toml")
    assert "must be a regular file" in _refused({"--config": f"{tmp_path}/f.toml"}, {})


def test_the_file_is_optional_unless_it_is_named(toml):
    folder = toml("[volcanic]\nport = 1\n", "other.toml")
    assert load({}, {}, folder).service.port == 5099
    assert load({"--config": "other.toml"}, {}, folder).service.port == 1
    assert load({}, {"VOLCANIC_CONFIG": "other.toml"}, folder).service.port == 1
    assert load({"--config": "other.toml"}, {}, folder).service.config_file == f"{folder}/other.toml"


def test_paths_count_from_where_they_are_written(toml, tmp_path):
    (tmp_path / "sub").mkdir()
    toml("[volcanic]\nworkspace = ['a', '/b']\nstate = 'state'\n", "sub/v.toml")
    settings = load({"--config": "sub/v.toml"}, {}, str(tmp_path))
    assert settings.service.workspaces == (f"{tmp_path}/sub/a", "/b")
    assert settings.service.state_dir == f"{tmp_path}/sub/state"
    settings = load({"--workspace": ("a",)}, {"VOLCANIC_STATE": "s"}, str(tmp_path))
    assert settings.service.workspaces == (f"{tmp_path}/a",)
    assert settings.service.state_dir == f"{tmp_path}/s"
    assert load({}, {"VOLCANIC_WORKSPACE": "a:/b"}, "/x").service.workspaces == ("/x/a", "/b")


def test_the_state_folder_is_the_systems_by_default():
    assert load({}, {"XDG_STATE_HOME": "/xdg"}, "/x").service.state_dir == "/xdg/volcanic"
    one, other = ({"XDG_STATE_HOME": "/xdg", "VOLCANIC_WORKSPACE": path} for path in ("/a/my ws", "/b/my ws"))
    assert re.fullmatch(r"/xdg/volcanic/myws-[0-9a-f]{8}", load({}, one, "/x").service.state_dir)
    assert load({}, one, "/x").service.state_dir != load({}, other, "/x").service.state_dir
    assert load({}, {"XDG_STATE_HOME": "relative"}, "/x").service.state_dir.endswith("/.local/state/volcanic")


def test_an_empty_variable_is_as_if_unset():
    settings = load({}, {"A2A__PublicUrl": "", "VOLCANIC_MODEL": " ", "A2A__MaxHops": ""}, "/nowhere")
    assert settings.a2a == A2ASettings()


def test_other_variables_are_none_of_ours():
    load(
        {},
        {"VOLCANIC_SERVICE_HOST": "10.0.0.1", "A2AClient__Enabled": "x", "A2A_CLIENT_ENABLED": "x", "A2A": "x"},
        "/nowhere",
    )


@pytest.mark.parametrize(
    ("flags", "env", "model", "faux", "script"),
    [
        ({"--faux": True}, {"VOLCANIC_MODEL": "a:b"}, "", True, ""),
        ({"--model": "a:b"}, {"VOLCANIC_FAUX": "true"}, "a:b", False, ""),
        ({"--faux-script": "/s"}, {"VOLCANIC_MODEL": "a:b"}, "", True, "/s"),
        ({"--faux-script": "/s", "--faux": True}, {}, "", True, "/s"),
        ({}, {"VOLCANIC_FAUX": "false", "VOLCANIC_MODEL": "a:b"}, "a:b", False, ""),
        ({}, {}, "", False, ""),
    ],
)
def test_one_model_is_chosen_by_the_strongest_source(flags, env, model, faux, script):
    service = load(flags, env, "/nowhere").service
    assert (service.model, service.faux, service.faux_script) == (model, faux, script)


def test_a_flag_that_is_no_setting_is_our_own_mistake():
    with pytest.raises(KeyError):
        load({"--prot": "1"}, {}, "/nowhere")


def test_settings_do_not_change():
    settings = Settings()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(settings, "a2a", None)  # noqa: B010 - a type checker refuses it at once


NAMES = st.sampled_from([setting.env for setting in SETTINGS] + ["A2A__", "A2A__x__y", "VOLCANIC_"])


@given(env=st.dictionaries(NAMES, st.text(alphabet=st.characters(exclude_characters="\0"), max_size=20), max_size=4))
def test_any_environment_is_settings_or_one_line(env):
    env.pop("VOLCANIC_CONFIG", None)
    assert "\n" not in _refusal({}, env, "/nowhere")


@given(
    text=st.text(max_size=60)
    | st.sampled_from(["[A2A]\nMaxHops=", "[volcanic]\nport=", "x=", "[[A2A]]"]).flatmap(
        lambda head: st.text(max_size=20).map(lambda tail: head + tail)
    )
)
def test_any_file_is_settings_or_one_line(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("toml") / "volcanic.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert "\n" not in _refusal({}, {}, str(path.parent))

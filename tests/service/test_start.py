"""Starting: the ready line, the settings' precedence, `--demo`, and every start that must fail with one line and status 2."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import time

import pytest

from tests.service.a2a import answer, state_of
from tests.service.harness import ROOT, eventually
from tests.service.wire import JsonRpcCaller
from volcanic.config import SETTINGS


def _refused(service, *words, seconds=30.0):
    """Check that a start ends with status 2 and one line on stderr that holds the words."""
    status, out, log = service.run(seconds)
    assert status == 2, (status, out, log)
    lines = [line for line in log.splitlines() if line.strip()]
    assert len(lines) == 1, log
    assert "Traceback" not in log
    for word in words:
        assert word in lines[0], (word, lines[0])
    assert "volcanic ready" not in out
    assert service.census() == {}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"A2A__MaxHops": "abc"}, ["A2A__MaxHops", "abc"]),
        ({"A2A__MaxHops": "-1"}, ["A2A__MaxHops", "-1"]),
        ({"A2A__SessionIdleTimeout": "soon"}, ["A2A__SessionIdleTimeout", "soon"]),
        ({"A2A__CancelOnDisconnect": "perhaps"}, ["A2A__CancelOnDisconnect", "perhaps", "never"]),
        ({"A2A__MaxHop": "3"}, ["A2A__MaxHop", "A2A__MaxHops"]),
        ({"A2A__PublicUrl": "ftp//x"}, ["A2A__PublicUrl"]),
        ({"VOLCANIC_TIMEZONE": "Mars/Olympus"}, ["VOLCANIC_TIMEZONE", "Mars/Olympus"]),
    ],
)
def test_a_bad_setting_in_the_environment_is_one_line(make_service, environment, words):
    _refused(make_service(environment=environment), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "70000"), ["--port", "70000"]),
        (("--port", "http"), ["--port", "http"]),
        (("--workers", "-1"), ["--workers"]),
        (("--host", "256.1.1.1"), ["256.1.1.1"]),
        (("--config", "/nothing/here.toml"), ["/nothing/here.toml"]),
        (("--certfile", "/nothing/cert.pem"), ["--keyfile"]),
    ],
)
def test_a_bad_flag_is_one_line(make_service, arguments, words):
    _refused(make_service(*arguments), *words)


def test_a_flag_that_nobody_knows_is_named(make_service):
    status, out, log = make_service("--no-such-flag").run()
    assert (status, out) == (2, "")
    assert "--no-such-flag" in log
    assert "Traceback" not in log


def test_a_faux_script_that_is_not_there_is_one_line(make_service):
    _refused(make_service("--faux-script", "/nothing/here.json", script=None), "/nothing/here.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[A2A]\nMaxHops = 'many'\n", ["MaxHops", "many"]),
        ("[A2A]\nMaxHop = 3\n", ["MaxHop"]),
        ("[volcanic]\nprot = 3\n", ["prot"]),
        ("[A2A\n", ["volcanic.toml"]),
    ],
)
def test_a_bad_settings_file_is_one_line(make_service, content, words):
    service = make_service()
    (service.folder / "volcanic.toml").write_text(content)
    _refused(service, *words)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"rules": [{"textPrefix": "bad", "steps": [{"dance": 1}]}]}, ["dance", "bad"]),
        ({"rules": [{"textPrefix": "bad", "steps": [], "colour": 1}]}, ["colour", "rule 1"]),
        ({"rulez": []}, ["rulez"]),
        ({"rules": [{"textPrefix": "bad", "turns": "nowhere"}]}, ["nowhere"]),
        ({"rules": [{"textRegex": "(", "steps": []}]}, ["("]),
    ],
)
def test_a_bad_faux_script_is_one_line_that_names_the_rule(make_service, script, words):
    _refused(make_service(script=script), *words)


def test_a_start_without_a_model_says_how_to_name_one(make_service):
    _refused(make_service(script=None), "--model", "--faux")


def test_an_unknown_model_provider_is_one_line(make_service):
    _refused(make_service("--model", "nobody:gpt-0", script=None), "nobody")


def test_a_port_in_use_is_one_line(make_service):
    service = make_service()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", service.port))
        taken.listen()
        _refused(service, str(service.port), "127.0.0.1")


def test_a_workspace_that_cannot_be_made_or_written_is_one_line(make_service):
    beneath_a_file = make_service(script={"rules": []})
    (beneath_a_file.folder / "file").write_text("")
    beneath_a_file.arguments += ["--workspace", str(beneath_a_file.folder / "file" / "ws")]
    _refused(beneath_a_file, str(beneath_a_file.folder / "file"))
    unwritable = make_service(script={"rules": []})
    unwritable.arguments += ["--workspace", "/proc"]
    _refused(unwritable, "/proc")
    broken = make_service()
    (broken.workspace / ".volcanic" / "a2a" / "tasks").write_text("a file where a folder belongs")
    _refused(broken, str(broken.workspace))


def test_a_second_service_on_a_workspace_waits_and_gives_up(make_service):
    first = make_service().start()
    second = make_service()
    second.arguments += ["--workspace", str(first.workspace)]
    started = time.monotonic()
    _refused(second, str(first.workspace))
    assert 4 < time.monotonic() - started < 15
    assert answer(first.rpc().send("unharmed")) == "unharmed"


def test_a_second_service_takes_over_when_the_first_leaves_in_time(make_service):
    first = make_service().start()
    done = first.rpc().send("hi")
    second = make_service()
    second.arguments[second.arguments.index(str(second.workspace))] = str(first.workspace)
    second.launch()
    first.stop()
    eventually(lambda: "volcanic ready" in second.out.read_text(), 15, "the second one is ready")
    second.keys = first.keys
    assert second.rpc().get(done["id"]) == done
    second.stop()


def test_two_services_with_one_state_folder_do_not_harm_each_other(make_service):
    first = make_service().start()
    (root,) = first.pids("root")
    second = make_service(environment={"VOLCANIC_STATE": str(first.state)})
    second.launch()
    eventually(
        lambda: second.process.poll() is not None or "volcanic ready" in second.out.read_text(), 20, "it started or not"
    )
    assert second.process.poll() in {None, 2}
    assert answer(first.rpc().send("unharmed")) == "unharmed"
    second.kill()
    assert answer(first.rpc().send("unharmed")) == "unharmed"
    assert first.pids("root") == [root], "its admin socket is still its own"


def test_the_ready_line_is_the_last_and_logs_are_json_on_stderr(make_service):
    service = make_service("--port", "0").start()
    assert service.port > 0
    assert service.out.read_text().splitlines() == [f"volcanic ready http://127.0.0.1:{service.port}"]
    assert answer(service.rpc().send("explode, but log it")) is None
    lines = eventually(service.log.read_text, 5, "something is logged").splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines if line)
    service.stop()


def test_a_logged_failure_names_caller_context_and_task(make_service):
    service = make_service().start()
    task = service.rpc().send("explode")
    entry = eventually(
        lambda: [line for line in service.log.read_text().splitlines() if task["id"] in line], 5, "a line"
    )
    value = json.loads(entry[-1])
    assert (value["caller"], value["contextId"], value["taskId"]) == ("alice", task["contextId"], task["id"])
    assert "/srv/secrets" in "".join(entry), "the detail goes to the log"


def test_flags_win_over_environment_over_file_over_default(make_service):
    def hops(service):
        params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
        states = []
        for count in (1, 3, 5, 7):
            task = service.rpc().call("SendMessage", {**params, "metadata": {"volcanic.hops": count}})["task"]
            states.append(state_of(task) == "COMPLETED")
        return states.count(True)

    service = make_service().start()
    assert hops(service) == 2, "the default is 3"
    service.stop()
    (service.folder / "volcanic.toml").write_text("[A2A]\nMaxHops = 5\n[volcanic]\nport = 1\n")
    service.start()
    assert hops(service) == 3, "the file wins over the default"
    service.stop()
    service.environment["A2A__maxhops"] = "1"
    service.environment["VOLCANIC_PORT"] = "2"
    service.start()
    assert hops(service) == 1, "the environment wins over the file"
    assert service.port > 2, "the flag wins over the environment"
    service.stop()


def test_a_service_without_callers_says_how_to_add_one(make_service):
    service = make_service(callers=()).start()
    assert "callers.json" in service.log.read_text() + service.out.read_text()
    assert JsonRpcCaller(service.endpoint, "k").exchange("ListTasks", {}).status == 401


def test_demo_makes_a_caller_and_a_curl_line_that_works_as_pasted(make_service):
    service = make_service("--demo", "--faux", script=None, callers=()).start()
    output = service.out.read_text() + service.log.read_text()
    curl = next(line[line.index("curl ") :] for line in output.splitlines() if "curl " in line)
    words = shlex.split(curl)
    (entry,) = json.loads((service.a2a / "callers.json").read_text())
    assert entry["name"] == "demo"
    assert len(entry["key"]) >= 32
    assert (service.a2a / "callers.json").stat().st_mode & 0o077 == 0
    assert service.a2a.stat().st_mode & 0o077 == 0, "the folder of the keys is private"
    assert any(entry["key"] in word for word in words)
    run = subprocess.run(
        [sys.executable, "-c", CURL, *words[1:]], capture_output=True, text=True, check=True, timeout=30
    )
    task = json.loads(run.stdout)["result"]["task"]
    assert state_of(task) == "COMPLETED"
    assert answer(task)
    service.stop()
    before = (service.a2a / "callers.json").read_bytes()
    service.start()
    assert (service.a2a / "callers.json").read_bytes() == before, "an existing callers.json is left alone"


CURL = """
import sys, urllib.request
args, headers, data, url = sys.argv[1:], {}, None, None
while args:
    word = args.pop(0)
    if word in ("-H", "--header"):
        name, _, value = args.pop(0).partition(":")
        headers[name] = value.strip()
    elif word in ("-d", "--data"):
        data = args.pop(0).encode()
    elif not word.startswith("-"):
        url = word if "://" in word else "http://" + word
print(urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=20).read().decode())
"""
"""What curl does with the options that the printed line may use, for machines without curl."""


def test_help_lists_every_flag():
    run = subprocess.run(
        [sys.executable, "-m", "volcanic.supervisor", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    missing = [setting.flag for setting in SETTINGS if setting.flag and setting.flag not in run.stdout]
    assert missing == []

"""The public card and the extended one: what they hold, where they come from, how they are cached (CA-01, CA-02)."""

from __future__ import annotations

import json

import pytest

from tests.service.conftest import BINDINGS, caller_of
from tests.service.harness import eventually

PATH = "/.well-known/agent-card.json"
MEMBERS = {
    "name", "description", "supportedInterfaces", "provider", "version", "documentationUrl", "capabilities", "securitySchemes",
    "securityRequirements", "defaultInputModes", "defaultOutputModes", "skills", "signatures", "iconUrl",
}  # fmt: skip
REQUIRED = {
    "name", "description", "supportedInterfaces", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills",
}  # fmt: skip


def _public(service, **headers):
    return service.endpoint.request("GET", PATH, None, headers)


def _check(card):
    assert set(card) >= REQUIRED
    assert set(card) <= MEMBERS
    assert all(card[name] for name in REQUIRED)
    for skill in card["skills"]:
        assert all(skill[name] for name in ("id", "name", "description", "tags"))
    bindings = {each["protocolBinding"]: each for each in card["supportedInterfaces"]}
    assert set(bindings) == {"JSONRPC", "HTTP+JSON"}
    assert all(each["protocolVersion"] == "1.0" for each in bindings.values())
    assert all(set(each) <= {"url", "protocolBinding", "protocolVersion", "tenant"} for each in bindings.values())
    return {name: each["url"] for name, each in bindings.items()}


def test_the_public_card_has_what_a_card_must_have_and_nothing_else(service):
    reply = _public(service)
    assert (reply.status, reply.media_type) == (200, "application/json")
    urls = _check(reply.json)
    assert urls == {"JSONRPC": f"{service.url}/a2a", "HTTP+JSON": f"{service.url}/a2a/v1"}
    capabilities = reply.json["capabilities"]
    assert capabilities["streaming"] is True
    assert capabilities["extendedAgentCard"] is True
    assert capabilities.get("pushNotifications", False) is False
    schemes = reply.json["securitySchemes"]
    names = {name: next(iter(scheme)) for name, scheme in schemes.items()}
    assert sorted(names.values()) == ["apiKeySecurityScheme", "httpAuthSecurityScheme"]
    for scheme in schemes.values():
        if "apiKeySecurityScheme" in scheme:
            assert scheme["apiKeySecurityScheme"]["location"] == "header"
            assert scheme["apiKeySecurityScheme"]["name"] == "X-API-Key"
        else:
            assert scheme["httpAuthSecurityScheme"]["scheme"].lower() == "bearer"
    required = [set(each["schemes"]) for each in reply.json["securityRequirements"]]
    assert sorted(map(sorted, required)) == sorted([name] for name in schemes), "either scheme alone is enough"


def test_what_the_card_promises_is_kept(service):
    card = _public(service).json
    if not card["capabilities"].get("pushNotifications", False):
        for binding in BINDINGS:
            caller = caller_of(service, binding, "alice")
            task = caller.send("hi")
            for method, params in {
                "CreateTaskPushNotificationConfig": {"taskId": task["id"], "url": "https://example.com/hook"},
                "GetTaskPushNotificationConfig": {"taskId": task["id"], "id": "c"},
                "ListTaskPushNotificationConfigs": {"taskId": task["id"]},
                "DeleteTaskPushNotificationConfig": {"taskId": task["id"], "id": "c"},
            }.items():
                assert caller.refused(method, params).kind == "PUSH_NOTIFICATION_NOT_SUPPORTED"


def test_the_public_card_is_cacheable_and_conditional(service):
    reply = _public(service)
    assert "max-age=" in reply.headers["Cache-Control"]
    etag, modified = reply.headers["ETag"], reply.headers["Last-Modified"]
    assert etag.strip('W/"')
    for condition in (
        {"If-None-Match": etag},
        {"If-None-Match": "*"},
        {"If-None-Match": f'"other", {etag}'},
        {"If-Modified-Since": modified},
    ):
        again = _public(service, **condition)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["ETag"] == etag
    for condition in ({"If-None-Match": '"other"'}, {"If-None-Match": '"other"', "If-Modified-Since": modified}):
        assert _public(service, **condition).body == reply.body
    head = service.endpoint.request("HEAD", PATH)
    assert (head.status, head.body) == (200, b"")


def test_every_edge_serves_the_same_card(service):
    assert len({_public(service).headers["ETag"] for _ in range(20)}) == 1


def test_a_public_url_is_what_every_card_names_and_no_header_changes_it(make_service):
    service = make_service(environment={"A2A__PublicUrl": "https://a.example/base"}).start()
    card = _public(service, Host="evil.example", **{"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "ftp"})
    expected = {"JSONRPC": "https://a.example/base/a2a", "HTTP+JSON": "https://a.example/base/a2a/v1"}
    assert _check(card.json) == expected
    assert b"evil" not in card.body
    assert _check(service.rpc().call("GetExtendedAgentCard")) == expected
    assert _check(service.rest().http("GET", "/card").json) == expected


def test_the_settings_name_the_public_card(make_service):
    service = make_service(
        environment={
            "A2A__Card__Name": "Ada's helper",
            "A2A__Card__Description": "Does sums.",
            "A2A__InputModes": "text/plain",
        }
    ).start()
    card = _public(service).json
    assert (card["name"], card["description"], card["defaultInputModes"]) == (
        "Ada's helper",
        "Does sums.",
        ["text/plain"],
    )
    assert service.rpc().call("GetExtendedAgentCard")["name"] == "Ada's helper"


def _warned(service, start):
    eventually(lambda: "card.json" in service.log.read_text()[start:], 5, "a warning names the file")


CUSTOM = {
    "name": "Eugene's assistant",
    "description": "Schedules meetings and answers for Eugene.",
    "skills": [{"id": "scheduling", "name": "Scheduling", "description": "Finds times", "tags": ["calendar"]}],
}


def test_the_extended_card_comes_from_the_workspace_fresh_each_time(make_service):
    service = make_service().start()
    persona, card_file = service.workspace / "PERSONA.md", service.a2a / "card.json"
    for binding in BINDINGS:
        caller = caller_of(service, binding, "alice")
        for each in (persona, card_file):
            each.unlink(missing_ok=True)

        def card(caller=caller):
            value = caller.call("GetExtendedAgentCard")
            _check(value)
            return value

        fallback = card()
        assert fallback["name"] == "Volcanic assistant"
        assert [skill["id"] for skill in fallback["skills"]] == ["chat"]
        persona.write_text("\n  \nA patient librarian.\nSecond line.\n")
        assert card()["description"] == "A patient librarian."
        card_file.write_text(json.dumps(CUSTOM))
        assert {name: card()[name] for name in CUSTOM} == CUSTOM
        logged = len(service.log.read_text())
        card_file.write_text('{"name": "cut sh')
        assert card() == {**fallback, "description": "A patient librarian."}
        _warned(service, logged)
    assert _public(service).json["description"] == "A personal assistant that other agents can talk to."


@pytest.mark.parametrize("path", ["/card", "/extendedAgentCard"])
def test_the_cards_behind_the_key_are_cards(rest, path):
    reply = rest.http("GET", path)
    assert reply.status == 200
    _check(reply.json)


def test_an_extended_card_takes_no_notice_of_empty_params(rpc):
    assert rpc.call("GetExtendedAgentCard", {}) == rpc.call("GetExtendedAgentCard")

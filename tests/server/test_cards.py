import json

import pytest

from tests.server.conftest import KEY
from volcanic.protocol.cards import AgentSkill
from volcanic.server.cards import OwnCard
from volcanic.server.settings import ServerSettings

PUBLIC = "/.well-known/agent-card.json"


def urls(answer) -> list[str]:
    return [interface["url"] for interface in answer.json["supportedInterfaces"]]


async def test_the_public_card_needs_no_key_and_may_be_cached(server):
    answer = await server.request("GET", PUBLIC, key=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert "max-age=" in answer.headers["cache-control"]
    assert answer.headers["last-modified"].endswith(" GMT")
    assert answer.headers["vary"] == "host", "unset, the URL is the one it was asked by"
    base = f"http://127.0.0.1:{server.port}"
    assert urls(answer) == [base + "/a2a", base + "/a2a/v1"]
    assert answer.json["capabilities"] == {"streaming": True, "pushNotifications": False, "extendedAgentCard": True}
    assert set(answer.json) == {
        "name",
        "description",
        "supportedInterfaces",
        "version",
        "capabilities",
        "securitySchemes",
        "securityRequirements",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    }


@pytest.mark.parametrize("header", ["If-None-Match", "If-Modified-Since"])
async def test_a_copy_that_is_still_good_is_not_sent_again(server, header):
    first = await server.request("GET", PUBLIC, key=None)
    value = first.headers["etag"] if header == "If-None-Match" else first.headers["last-modified"]
    again = await server.request("GET", PUBLIC, headers={header: value}, key=None)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])


@pytest.mark.parametrize(
    "headers",
    [
        {"If-None-Match": '"other"'},
        {"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
        {"If-Modified-Since": "yesterday"},
        {"If-None-Match": '"other"', "If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"},
    ],
)
async def test_a_copy_that_may_be_stale_is_replaced(server, headers):
    assert (await server.request("GET", PUBLIC, headers=headers, key=None)).status == 200


async def test_head_and_no_other_method(server):
    head = await server.request("HEAD", PUBLIC, key=None)
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) > 100
    other = await server.request("POST", PUBLIC, b"{}", key=None)
    assert (other.status, other.headers["allow"]) == (405, "GET, HEAD")


async def test_a_configured_url_is_told_and_no_header_is_reflected(start):
    server = await start(ServerSettings(public_url="https://a.example/base"))
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "gopher"}
    answer = await server.request("GET", PUBLIC, headers=headers, key=None)
    assert urls(answer) == ["https://a.example/base/a2a", "https://a.example/base/a2a/v1"]
    extended = await server.request("GET", "/a2a/v1/extendedAgentCard", headers=headers)
    assert urls(extended) == urls(answer)
    assert b"evil" not in answer.body


@pytest.mark.parametrize("host", ["a b", "x/../y", 'q"', "user@host", "[::1", "a:b:c", ""])
async def test_a_host_that_is_none_is_not_told(server, host):
    answer = await server.talk(
        b"GET " + PUBLIC.encode() + b" HTTP/1.1\r\nHost: " + host.encode() + b"\r\nConnection: close\r\n\r\n"
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 200"):
        assert json.loads(body)["supportedInterfaces"][0]["url"] == f"http://127.0.0.1:{server.port}/a2a"
    else:
        assert head.startswith(b"HTTP/1.1 400")


async def test_many_hosts_do_not_fill_the_memory(server):
    for number in range(200):
        answer = await server.request("GET", PUBLIC, headers={"Host": f"h{number}.example"}, key=None)
        assert urls(answer)[0] == f"http://h{number}.example/a2a"
    assert len(server.app._cards._public) <= 64


async def test_the_public_card_with_a_key(server):
    answer = await server.request("GET", "/a2a/v1/card")
    public = await server.request("GET", PUBLIC, key=None)
    assert answer.json == public.json


async def test_the_extended_card_is_the_workspaces_own(server):
    skill = AgentSkill(id="s", name="Scheduling", description="Books slots.", tags=["calendar"])
    server.cards.own = OwnCard("Eugene's assistant", "Schedules meetings.", (skill,))
    answer = await server.request("GET", "/a2a/v1/extendedAgentCard")
    assert (answer.json["name"], answer.json["description"]) == ("Eugene's assistant", "Schedules meetings.")
    assert answer.json["skills"] == [
        {"id": "s", "name": "Scheduling", "description": "Books slots.", "tags": ["calendar"]}
    ]
    server.cards.own = OwnCard()
    assert (await server.request("GET", "/a2a/v1/extendedAgentCard")).json["skills"][0]["id"] == "chat"
    assert KEY not in answer.body.decode()


async def test_health_needs_no_key_and_readiness_follows_the_slots(server):
    assert (await server.request("GET", "/healthz", key=None)).status == 200
    assert (await server.request("GET", "/readyz", key=None)).status == 200
    server.owners.is_ready = False
    assert (await server.request("GET", "/readyz", key=None)).status == 503
    assert (await server.request("GET", "/healthz", key=None)).status == 200


@pytest.mark.parametrize("path", ["/", "/a2ax", "/a2a/x", "/a2a/v1x", "/admin/tree", "/.well-known/", "//a2a"])
async def test_everything_else_is_a_plain_404(server, path):
    answer = await server.request("GET", path, key=None)
    assert (answer.status, answer.json["error"]["status"]) == (404, "NOT_FOUND")

"""A request means the same on both bindings, whatever is wrong with it, and nothing makes the server fail (spec §5.1)."""

import json
from functools import partial

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.messages import End
from tests.server.conftest import KEY
from tests.server.fakes import TASK_ID, FakeCards, FakeOwners, FakeStream
from volcanic.server.app import build_app
from volcanic.server.settings import ServerSettings
from volcanic.storage.callers import Principal

VALID = {
    "message": {
        "messageId": "m",
        "contextId": "c",
        "taskId": TASK_ID,
        "role": "ROLE_USER",
        "referenceTaskIds": ["x"],
        "extensions": [],
        "metadata": {"volcanic.hops": 1},
        "parts": [
            {"text": "hi", "mediaType": "text/plain"},
            {"raw": "YQ==", "filename": "a.txt"},
            {"data": {"k": [1, None]}},
            {"url": "https://e.example/x", "metadata": {}},
        ],
    },
    "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 3, "returnImmediately": True},
    "metadata": {"a": {"b": [1.5, "x"]}},
}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["", "ROLE_AGENT", "ROLE_UNSPECIFIED", "@@@", "abcde", "a b", "\ud800", "application/x-nope", "é" * 101]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def paths(value, here=()):
    yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from paths(inner, (*here, name))


def changed(value, path, new, remove):
    copy = json.loads(json.dumps(value))
    if not path:
        return new
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return copy


REQUESTS = st.builds(partial(changed, VALID), st.sampled_from(list(paths(VALID))), VALUES, st.booleans())


class AnyKey:
    def match(self, _key):
        return Principal("/ws", "bot")


def server():
    owners = FakeOwners()
    return owners, build_app(owners, AnyKey(), FakeCards(), ServerSettings())


async def ask(app, method: str, path: str, body=b"", *, query=b"", content_type=b"application/json"):
    sent = []
    headers = [(b"x-api-key", KEY.encode()), (b"host", b"localhost")]
    if body:
        headers.append((b"content-type", content_type))
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": headers,
        "scheme": "http",
    }

    async def receive():
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        await trio.lowlevel.checkpoint()
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def as_json(request) -> bytes:
    return json.dumps(request, ensure_ascii=True).encode()


def said(answer: bytes) -> tuple:
    error = json.loads(answer).get("error")
    if error is None:
        return ()
    details = error.get("data") or error["details"]
    return details[0]["reason"], error["message"], details[1:]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=REQUESTS)
async def test_a_send_with_one_member_changed(request):
    owners, app = server()
    params = as_json(request)
    rpc_status, rpc = await ask(
        app, "POST", "/a2a", b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":' + params + b"}"
    )
    rest_status, rest = await ask(app, "POST", "/a2a/v1/message:send", params)
    assert rpc_status == 200
    assert rest_status in (200, 400)
    assert said(rpc) == said(rest)
    assert len(owners.calls) == (0 if said(rpc) else 2)


@settings(max_examples=300, deadline=None)
@given(
    body=st.one_of(st.binary(max_size=60), VALUES.map(as_json), st.just(b"")),
    content_type=st.sampled_from([b"application/json", b"application/a2a+json"]),
)
async def test_any_body_is_answered(body, content_type):
    _, app = server()
    for path in ("/a2a", "/a2a/v1/message:send", f"/a2a/v1/tasks/{TASK_ID}:cancel", "/a2a/v1/message:stream"):
        status, answer = await ask(app, "POST", path, body, content_type=content_type)
        assert status < 500
        json.loads(answer)


@settings(max_examples=300, deadline=None)
@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "X"]),
    path=st.one_of(
        st.text(max_size=30).map(lambda text: "/a2a/v1/" + text),
        st.lists(
            st.sampled_from(
                ["tasks", "/", ":", "cancel", "subscribe", TASK_ID, "message", "pushNotificationConfigs", "card", ".."]
            ),
            max_size=6,
        ).map(lambda parts: "/a2a/v1/" + "".join(parts)),
    ),
    query=st.one_of(
        st.binary(max_size=20),
        st.sampled_from([b"pageSize=1&pageSize=2", b"a2a-version=1.0", b"%ff=1", b"&&&", b"historyLength=1e3"]),
    ),
)
async def test_any_target_is_answered(method, path, query):
    owners, app = server()
    owners.streams = [FakeStream(End(id=1))]
    status, answer = await ask(app, method, path, query=query)
    assert status < 500
    if answer:
        json.loads(answer)

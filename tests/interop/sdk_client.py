"""The official SDK's client (PyPI a2a-sdk) against a running service. Run as a program of its own.

    python sdk_client.py URL KEY BINDING SCENARIO...

Prints one JSON object a scenario: its name and the traceback of its failure, or null. The faux model must play the
script of the service tests. Nothing of volcanic is imported: what is checked is what a stranger's client sees.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
import uuid
from collections.abc import Awaitable, Callable

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.client import Client, ClientCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf import json_format

SCENARIO_SECONDS = 20


class OneKey(CredentialService):
    """Gives the same key whatever scheme the card asks for; the SDK picks the scheme and the header from the card."""

    def __init__(self, key: str):
        self._key = key

    async def get_credentials(self, security_scheme_name: str, context: ClientCallContext | None) -> str:  # noqa: ARG002
        return self._key


class Session:
    """A card, and clients made from it."""

    def __init__(self, http: httpx.AsyncClient, card: pb.AgentCard, key: str, binding: str):
        self.http = http
        self.card = card
        self.key = key
        self.binding = binding

    def client(self, *, streaming: bool = False, polling: bool = False, key: str | None = None) -> Client:
        config = ClientConfig(
            streaming=streaming, polling=polling, httpx_client=self.http, supported_protocol_bindings=[self.binding]
        )
        return ClientFactory(config).create(self.card, [AuthInterceptor(OneKey(key or self.key))])


def saying(text: str, *, task: str = "", context: str = "") -> pb.SendMessageRequest:
    message = pb.Message(message_id=str(uuid.uuid4()), role=pb.ROLE_USER, task_id=task, context_id=context)
    message.parts.add().text = text
    return pb.SendMessageRequest(message=message)


async def send(client: Client, text: str, *, task: str = "", context: str = "") -> pb.Task:
    events = [event async for event in client.send_message(saying(text, task=task, context=context))]
    assert len(events) == 1
    assert events[0].HasField("task")
    return events[0].task


def text_of(parts: list[pb.Part]) -> str:
    return "".join(part.text for part in parts)


def answer(task: pb.Task) -> str:
    return "".join(text_of(each.parts) for each in task.artifacts if "response" in {each.name, each.artifact_id})


async def refused(call: Awaitable[object], kind: type[Exception]) -> str:
    """Return the text of the error that a call must end with."""
    try:
        result = await call
    except kind as error:
        return str(error)
    raise AssertionError(f"not refused with {kind.__name__}: {result}")


async def card(session: Session) -> None:
    assert session.card.name
    assert session.card.capabilities.streaming
    assert {each.protocol_binding for each in session.card.supported_interfaces} == {"JSONRPC", "HTTP+JSON"}


async def extended_card(session: Session) -> None:
    async with session.client() as client:
        extended = await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
    assert extended.name
    assert extended.skills
    assert extended.supported_interfaces == session.card.supported_interfaces


async def send_blocking(session: Session) -> None:
    task = await send(session.client(), "hi")
    assert task.status.state == pb.TASK_STATE_COMPLETED
    assert answer(task) == "hi"
    assert task.history[0].parts[0].text == "hi"
    assert task.status.HasField("timestamp")


async def send_immediate(session: Session) -> None:
    client = session.client(polling=True)
    task = await send(client, "brief: at once")
    assert task.status.state in {pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING}
    for _ in range(200):
        task = await client.get_task(pb.GetTaskRequest(id=task.id))
        if task.status.state == pb.TASK_STATE_COMPLETED:
            break
        await asyncio.sleep(0.05)
    assert answer(task) == "done: brief: at once"


async def direct_reply(session: Session) -> None:
    (event,) = [event async for event in session.client().send_message(saying("direct"))]
    assert event.HasField("message")
    assert text_of(event.message.parts) == "a plain reply"


async def stream(session: Session) -> None:
    events = [event async for event in session.client(streaming=True).send_message(saying("phases"))]
    assert events[0].HasField("task")
    assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
    pieces = [text_of(event.artifact_update.artifact.parts) for event in events if event.HasField("artifact_update")]
    assert "".join(pieces) == "first half, second half"
    assert "looking" in [text_of(event.status_update.status.message.parts) for event in events]


async def subscribe(session: Session) -> None:
    client = session.client(streaming=True)
    parked = await send(session.client(), "slow-ask")
    seen = []
    async for event in client.subscribe(pb.SubscribeToTaskRequest(id=parked.id)):
        seen.append(event)
        if len(seen) == 1:
            assert event.task.id == parked.id
            assert event.task.status.state == pb.TASK_STATE_INPUT_REQUIRED
            answering = asyncio.create_task(send(session.client(), "monday", task=parked.id))
    assert seen[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
    assert answer(await answering) == "booked monday"


async def subscribe_to_finished(session: Session) -> None:
    task = await send(session.client(), "hi")
    events = session.client(streaming=True).subscribe(pb.SubscribeToTaskRequest(id=task.id))
    await refused(anext(aiter(events)), errors.UnsupportedOperationError)


async def get(session: Session) -> None:
    client = session.client()
    task = await send(client, "ask")
    assert await client.get_task(pb.GetTaskRequest(id=task.id)) == task
    short = await client.get_task(pb.GetTaskRequest(id=task.id, history_length=1))
    assert list(short.history) == list(task.history[-1:])
    assert not (await client.get_task(pb.GetTaskRequest(id=task.id, history_length=0))).history
    await refused(client.get_task(pb.GetTaskRequest(id=str(uuid.uuid4()))), errors.TaskNotFoundError)


async def list_paging(session: Session) -> None:
    client, context = session.client(), str(uuid.uuid4())
    sent = [(await send(client, f"number {number}", context=context)).id for number in range(7)]
    listed, token = [], ""
    for _ in range(10):
        page = await client.list_tasks(pb.ListTasksRequest(context_id=context, page_size=3, page_token=token))
        assert page.total_size == len(sent)
        assert page.page_size == 3
        listed += [task.id for task in page.tasks]
        token = page.next_page_token
        if not token:
            break
    assert listed == sent[::-1]
    full = await client.list_tasks(
        pb.ListTasksRequest(context_id=context, include_artifacts=True, status=pb.TASK_STATE_COMPLETED)
    )
    assert [answer(task) for task in full.tasks] == [f"number {number}" for number in reversed(range(7))]
    await refused(client.list_tasks(pb.ListTasksRequest(page_size=101)), errors.InvalidParamsError)


async def cancel(session: Session) -> None:
    client = session.client(polling=True)
    task = await send(client, "long: cancel me")
    canceled = await client.cancel_task(pb.CancelTaskRequest(id=task.id))
    assert canceled.status.state == pb.TASK_STATE_CANCELED
    await refused(client.cancel_task(pb.CancelTaskRequest(id=task.id)), errors.TaskNotCancelableError)


async def continuation(session: Session) -> None:
    client = session.client()
    task = await send(client, "ask")
    assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert text_of(task.status.message.parts) == "which day?"
    done = await send(client, "monday", task=task.id, context=task.context_id)
    assert (done.id, answer(done)) == (task.id, "booked monday")
    await refused(send(client, "again", task=task.id), errors.UnsupportedOperationError)


async def artifacts(session: Session) -> None:
    task = await send(session.client(), "files")
    parts = {each.artifact_id: each.parts[0] for each in task.artifacts}
    assert json_format.MessageToDict(parts["facts"].data) == {"key": "value", "count": 42}
    assert parts["file"].raw == b"file content"
    assert parts["file"].filename == "output.txt"
    assert parts["link"].url == "https://example.com/output.txt"


async def parts_in(session: Session) -> None:
    request = saying("look")
    request.message.parts.add(raw=b"\xff\xef", filename="a.bin", media_type="application/octet-stream")
    request.message.parts.add(url="https://example.com/a.txt", media_type="text/plain")
    json_format.ParseDict({"data": [1, None, {"a": "b"}]}, request.message.parts.add())
    request.message.metadata.update({"a": {"b": [1.5]}})
    (event,) = [event async for event in session.client().send_message(request)]
    assert list(event.task.history[0].parts) == list(request.message.parts)
    assert event.task.history[0].metadata == request.message.metadata


async def wrong_media_type(session: Session) -> None:
    request = saying("look")
    request.message.parts.add(raw=b"x", media_type="application/x-nope")
    await refused(anext(aiter(session.client().send_message(request))), errors.ContentTypeNotSupportedError)


async def push_is_not_supported(session: Session) -> None:
    client = session.client()
    task = await send(client, "hi")
    config = pb.TaskPushNotificationConfig(task_id=task.id, url="https://example.com/hook")
    if not session.card.capabilities.push_notifications:
        await refused(client.create_task_push_notification_config(config), errors.PushNotificationNotSupportedError)


async def wrong_key(session: Session) -> None:
    client = session.client(key="k_wrong_0123456789")
    assert "401" in await refused(client.get_task(pb.GetTaskRequest(id="x")), errors.A2AError)


async def strict_schema(session: Session) -> None:
    """Parse raw answers with the SDK's protobuf classes, refusing every member that the proto does not know."""
    headers = {"X-API-Key": session.key, "A2A-Version": "1.0", "Content-Type": "application/json"}

    async def raw(method: str, params: dict[str, object]) -> dict[str, object]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        url = next(each.url for each in session.card.supported_interfaces if each.protocol_binding == "JSONRPC")
        value = (await session.http.post(url, json=body, headers=headers)).json()
        result: dict[str, object] = value["result"]
        return result

    for text in ("hi", "ask", "files", "give-up", "direct"):
        params = json_format.MessageToDict(saying(text))
        json_format.ParseDict(await raw("SendMessage", params), pb.SendMessageResponse())
    listed = await raw("ListTasks", {"includeArtifacts": True})
    json_format.ParseDict(listed, pb.ListTasksResponse())
    json_format.ParseDict(await raw("GetExtendedAgentCard", {}), pb.AgentCard())
    base = session.card.supported_interfaces[0].url.rpartition("/a2a")[0]
    public = (await session.http.get(f"{base}/.well-known/agent-card.json")).json()
    json_format.ParseDict(public, pb.AgentCard())


SCENARIOS: dict[str, Callable[[Session], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        card, extended_card, send_blocking, send_immediate, direct_reply, stream, subscribe, subscribe_to_finished, get,
        list_paging, cancel, continuation, artifacts, parts_in, wrong_media_type, push_is_not_supported, wrong_key,
        strict_schema,
    )
}  # fmt: skip


async def main(url: str, key: str, binding: str, names: list[str]) -> None:
    async with httpx.AsyncClient(timeout=SCENARIO_SECONDS, trust_env=False) as http:
        found = await A2ACardResolver(http, url).get_agent_card()
        session = Session(http, found, key, binding)
        for name in names:
            failure = None
            try:
                await asyncio.wait_for(SCENARIOS[name](session), SCENARIO_SECONDS)
            except Exception:  # noqa: BLE001 - the failure is what is reported
                failure = traceback.format_exc()
            print(json.dumps({"scenario": name, "failure": failure}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))

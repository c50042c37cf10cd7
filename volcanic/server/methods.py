"""What each A2A method asks of the owners: from a valid request to a call, and from its outcome to a result.

Both bindings end here, so that a request means the same on each (spec §5.1). Ids and operation ids are minted here.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from actors.messages import CancelTask, GetTask, ListTasks, Send, Subscribe
from actors.owners_port import EventStream, Owners
from volcanic.config import CancelOnDisconnect
from volcanic.protocol import hops, ids
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.methods import PUSH_CONFIG_METHODS, Params
from volcanic.protocol.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from volcanic.server import paging
from volcanic.server.media_types import MediaTypes
from volcanic.server.settings import ServerSettings
from volcanic.storage.callers import Principal

PAGE_SIZE: Final = 50
"""Tasks on a page when the request names no size (spec §3.1.4)."""

_T = TypeVar("_T")
_NO_CONFIGURATION: Final = SendMessageConfiguration()


class ExtendedCards(Protocol):
    """Where extended cards come from."""

    def extended(self, workspace: str, base_url: str) -> bytes:
        """Return the JSON of the workspace's card."""


class Methods:
    """The methods of A2A 1.0 over the owners."""

    def __init__(self, owners: Owners, cards: ExtendedCards, settings: ServerSettings) -> None:
        self._owners = owners
        self._cards = cards
        self._settings = settings
        self._accepted = MediaTypes(settings.input_modes)

    @staticmethod
    def check_supported(method: str) -> None:
        """Refuse what the card says this agent cannot do (spec §3.3.4), before its parameters are looked at.

        Raises:
            A2AError: the method needs a capability that is not there.
        """
        if method in PUSH_CONFIG_METHODS:
            raise A2AError(ErrorKind.PUSH_NOTIFICATION_NOT_SUPPORTED)

    async def answer(self, caller: Principal, method: str, params: Params, base_url: str) -> bytes:
        """Return the JSON result of a method that answers once.

        Raises:
            A2AError: what the caller is told instead.
        """
        seconds = self._settings.call_seconds
        if method == "SendMessage":
            send = self._send(caller, cast("SendMessageRequest", params), stream=False)
            if not send.return_immediately:
                seconds = self._settings.send_seconds
            return await self._owners.send_message(send, seconds)
        if method == "GetTask":
            return await self._owners.get_task(self._get_task(caller, cast("GetTaskRequest", params)), seconds)
        if method == "ListTasks":
            return await self._list_tasks(caller, cast("ListTasksRequest", params), seconds)
        if method == "CancelTask":
            cancel = CancelTask(
                workspace=caller.workspace, caller=caller.caller, task_id=cast("CancelTaskRequest", params).id
            )
            return await self._owners.cancel_task(cancel, seconds)
        if method == "GetExtendedAgentCard":
            return self._cards.extended(caller.workspace, base_url)
        raise A2AError(ErrorKind.METHOD_NOT_FOUND)

    def stream(
        self, caller: Principal, method: str, params: Params, last_event_id: str | None
    ) -> AbstractAsyncContextManager[EventStream]:
        """Return the stream of a method that streams; entering it may raise `A2AError`.

        Raises:
            A2AError: what is wrong with the request by itself.
        """
        call: Send | Subscribe
        if method == "SendStreamingMessage":
            call = self._send(caller, cast("SendMessageRequest", params), stream=True)
        else:
            call = Subscribe(
                workspace=caller.workspace,
                caller=caller.caller,
                task_id=cast("SubscribeToTaskRequest", params).id,
                last_event_id=_event_number(last_event_id),
            )
        return self._owners.stream(call, self._settings.call_seconds)

    def _send(self, caller: Principal, request: SendMessageRequest, *, stream: bool) -> Send:
        message = request.message
        configuration = _given(request.configuration, _NO_CONFIGURATION)
        if configuration.task_push_notification_config is not UNSET:
            raise A2AError(ErrorKind.PUSH_NOTIFICATION_NOT_SUPPORTED)
        self._check_parts(message)
        task_id, context_id = _given(message.task_id, ""), _given(message.context_id, "")
        new = not task_id
        if new:
            context_id = context_id or ids.mint_context_id(secrets.token_bytes(16))
            shard = ids.shard_of(caller.caller, context_id)
            task_id = ids.mint_task_id(shard, secrets.token_bytes(16))
        waits = stream or not configuration.return_immediately
        return Send(
            op=secrets.token_hex(16),
            workspace=caller.workspace,
            caller=caller.caller,
            new=new,
            task_id=task_id,
            context_id=context_id,
            message=message,
            history_length=_given(configuration.history_length, None),
            accepted_output_modes=configuration.accepted_output_modes,
            return_immediately=configuration.return_immediately and not stream,
            stream=stream,
            cancel_on_disconnect=waits and self._cancels(new=new, stream=stream),
            hops=hops.read(request.metadata, message.metadata),
        )

    def _cancels(self, *, new: bool, stream: bool) -> bool:
        """Whether the run ends when this caller leaves before it could learn the task's id (or always, if so set)."""
        match self._settings.cancel_on_disconnect:
            case CancelOnDisconnect.ALWAYS:
                return True
            case CancelOnDisconnect.BLOCKING:
                return new and not stream
            case CancelOnDisconnect.NEVER:
                return False

    def _check_parts(self, message: Message) -> None:
        for number, part in enumerate(message.parts):
            media_type = part.media_type
            if media_type is not UNSET and media_type and not self._accepted.accept(media_type):
                text = f"message.parts[{number}]: the media type is not supported"
                raise A2AError(ErrorKind.CONTENT_TYPE_NOT_SUPPORTED, text, field=f"message.parts[{number}].mediaType")

    def _get_task(self, caller: Principal, request: GetTaskRequest) -> GetTask:
        return GetTask(
            workspace=caller.workspace,
            caller=caller.caller,
            task_id=request.id,
            history_length=_given(request.history_length, None),
        )

    async def _list_tasks(self, caller: Principal, request: ListTasksRequest, seconds: float) -> bytes:
        size = _given(request.page_size, PAGE_SIZE)
        query = ListTasks(
            workspace=caller.workspace,
            caller=caller.caller,
            limit=size + 1,  # one more than is shown tells whether there is a next page
            before=paging.decode(request.page_token) if request.page_token else None,
            context_id=_given(request.context_id, None),
            state=_given(request.status, None),
            since=_given(request.status_timestamp_after, None),
            history_length=_given(request.history_length, None),
            artifacts=request.include_artifacts,
        )
        page = await self._owners.list_tasks(query, seconds)
        rows = page.rows[:size]
        more = rows and (page.cut or len(page.rows) > size)
        token = paging.encode(rows[-1].timestamp, rows[-1].task_id) if more else ""
        shown = paging.Page(
            tasks=[row.task for row in rows], next_page_token=token, page_size=size, total_size=page.total
        )
        return msgspec.json.encode(shown)


def _given(value: _T | UnsetType, default: _T) -> _T:
    return default if value is UNSET else value


def _event_number(text: str | None) -> int | None:
    """Return a Last-Event-ID as a task version; what is none was not minted here and is passed over."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 15 else None  # noqa: PLR2004

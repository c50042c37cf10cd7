"""The messages of a conversation as a transcript keeps them and a model gets them (agent-core facts, section 2).

JSON: `role` is the tag of a message, `type` that of a content block, names are camelCase, timestamps are Unix
milliseconds. Unknown members are ignored, so that transcripts of later versions still load.
"""

from __future__ import annotations

import enum

import msgspec

from volcanic.extension import JsonObject


class StopReason(enum.StrEnum):
    """Why a model response ended."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "toolUse"
    ERROR = "error"
    ABORTED = "aborted"


class _Json(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Base: camelCase names, defaults left out."""


class TextBlock(_Json, tag="text"):
    """Text. `host` marks what the host put round a sender's words (framing, local time, notes about files)."""

    text: str
    host: bool = False


class ThinkingBlock(_Json, tag="thinking"):
    """Reasoning of the model."""

    thinking: str


class ImageContent(_Json, tag="image"):
    """An image: base64 data and its media type."""

    data: str
    mime_type: str


class ToolCallBlock(_Json, tag="toolCall"):
    """A tool call as the model made it."""

    id: str
    name: str
    arguments: JsonObject = {}


class Usage(_Json):
    """Tokens of one model response; `cost` in the provider's currency, as one sum or by kind of token."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: float | dict[str, float] = 0.0


class UserMessage(_Json, tag_field="role", tag="user", kw_only=True):
    """What a caller, an owner or a delivered result says.

    `message_id` and `task_id` are the A2A ids it came with, if any. `queued` marks what was put into a run that was
    already going on (steering and follow-ups).
    """

    content: list[TextBlock | ImageContent]
    timestamp: int
    message_id: str = ""
    task_id: str = ""
    queued: bool = False

    def sender_text(self) -> str:
        """Return the sender's own words: all text but the host's, blocks joined by line feeds."""
        return "\n".join([block.text for block in self.content if isinstance(block, TextBlock) and not block.host])

    def first_text(self) -> str:
        """Return the first block of the sender's own words, or an empty text."""
        for block in self.content:
            if isinstance(block, TextBlock) and not block.host:
                return block.text
        return ""


class AssistantMessage(_Json, tag_field="role", tag="assistant", kw_only=True):
    """One model response. One that ended in `error` or `aborted` stays in the file but leaves the context."""

    content: list[TextBlock | ThinkingBlock | ToolCallBlock]
    provider: str
    model: str
    stop_reason: StopReason
    timestamp: int
    api: str = ""
    usage: Usage | None = None
    error_message: str = ""

    def text(self) -> str:
        """Return the text a reader sees: all text blocks, joined as they stand."""
        return "".join([block.text for block in self.content if isinstance(block, TextBlock)])

    def tool_calls(self) -> list[ToolCallBlock]:
        """Return the tool calls in the order in which the model made them."""
        return [block for block in self.content if isinstance(block, ToolCallBlock)]


class ToolResultMessage(_Json, tag_field="role", tag="toolResult", kw_only=True):
    """The result of one tool call."""

    tool_call_id: str
    tool_name: str
    content: list[TextBlock | ImageContent]
    timestamp: int
    is_error: bool = False

    def text(self) -> str:
        """Return the result's text, blocks joined by line feeds."""
        return "\n".join([block.text for block in self.content if isinstance(block, TextBlock)])


Message = UserMessage | AssistantMessage | ToolResultMessage

_DECODER = msgspec.json.Decoder(Message)
_ENCODER = msgspec.json.Encoder()


def encodable(text: str) -> str:
    """Return `text` with lone surrogates replaced: JSON cannot hold them, and odd file names have them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def encode(message: Message) -> bytes:
    """Return the message as one line of JSON without a line end."""
    return _ENCODER.encode(message)


def decode(data: bytes | msgspec.Raw) -> Message:
    """Return the message in `data`; content that is a plain string counts as one block of text.

    Raises:
        ValueError: it is not a message this version can read (also for JSON nested too deeply).
    """
    try:
        return _decode_lenient(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _decode_lenient(data: bytes | msgspec.Raw) -> Message:
    try:
        return _DECODER.decode(data)
    except msgspec.ValidationError:
        document = msgspec.json.decode(data)
        if not isinstance(document, dict) or not isinstance(document.get("content"), str):
            raise
        document["content"] = [{"type": "text", "text": document["content"]}]
        message: Message = msgspec.convert(document, Message)
        return message

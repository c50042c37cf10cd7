from __future__ import annotations

from structlog.testing import capture_logs

from volcanic.agent.bus import SessionBus
from volcanic.extension import JsonObject


async def test_listeners_hear_their_channel_in_order_of_registration() -> None:
    bus = SessionBus()
    heard: list[object] = []

    async def first(data: JsonObject) -> None:
        heard.append(("first", data["hops"]))

    async def second(data: JsonObject) -> None:
        heard.append(("second", data["hops"]))

    bus.on("a2a.inbound", first)
    bus.on("a2a.inbound", second)
    bus.on("other", first)
    await bus.emit("a2a.inbound", {"hops": 2})
    await bus.emit("nobody", {})
    assert heard == [("first", 2), ("second", 2)]


async def test_a_listener_that_raises_is_logged_and_the_others_still_run() -> None:
    bus = SessionBus()
    heard: list[object] = []

    async def broken(data: JsonObject) -> None:
        raise ValueError("bug")

    async def fine(data: JsonObject) -> None:
        heard.append(data)

    bus.on("c", broken)
    bus.on("c", fine)
    with capture_logs() as logs:
        await bus.emit("c", {"x": 1})
    assert heard == [{"x": 1}]
    assert [(line["log_level"], line["channel"]) for line in logs] == [("error", "c")]


async def test_a_listener_may_register_another_meanwhile() -> None:
    bus = SessionBus()
    heard: list[str] = []

    async def late(data: JsonObject) -> None:
        heard.append("late")

    async def early(data: JsonObject) -> None:
        bus.on("c", late)

    bus.on("c", early)
    await bus.emit("c", {})
    assert heard == []
    await bus.emit("c", {})
    assert heard == ["late"]

"""Push-notification configs of A2A: what a2a-sdk asks of any store of them, and its sender."""

import json
from collections.abc import Sequence

import httpx
import pytest

pytest.importorskip("a2a", reason="needs the extra a2a")

from a2a.server.context import ServerCallContext
from a2a.server.tasks import BasePushNotificationSender
from a2a.types.a2a_pb2 import AuthenticationInfo, TaskPushNotificationConfig

from stores_adapters.a2a import BackendPushNotificationConfigStore
from stores_core import WordEmbedder, open_backend
from stores_core.embedding import Purpose
from tests.a2a_tasks import ANNA, a_task, call_of

BEN, NOBODY = call_of("ben"), ServerCallContext()


def config(id: str = "c", url: str = "https://example.com/c") -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(id=id, url=url, token="secret of c")


async def test_a_config_comes_back_equal_with_the_id_of_its_task(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendPushNotificationConfigStore(backend)
        given = config()
        given.authentication.CopyFrom(AuthenticationInfo(scheme="Bearer", credentials="x"))
        kept = await store.set_info("t", given, ANNA)
        assert (kept.task_id, given.task_id) == ("t", "")
        assert await store.get_info("t", ANNA) == [kept]
        given.task_id = "t"
        assert kept == given
        assert await store.get_info("another", ANNA) == []


async def test_configs_come_in_the_order_in_which_they_came(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendPushNotificationConfigStore(backend)
        for id in ("b", "a", "c"):
            await store.set_info("t", config(id), ANNA)
        assert [one.id for one in await store.get_info("t", ANNA)] == ["b", "a", "c"]


async def test_a_config_without_an_id_takes_the_place_of_the_last_such(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendPushNotificationConfigStore(backend)
        await store.set_info("t", config("", "https://example.com/old"), ANNA)
        await store.set_info("t", config("", "https://example.com/new"), ANNA)
        [kept] = await store.get_info("t", ANNA)
        assert (kept.id, kept.url) == ("t", "https://example.com/new")


async def test_configs_of_owners_never_meet_but_in_a_dispatch(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendPushNotificationConfigStore(backend)
        for call, where in ((ANNA, "anna"), (BEN, "ben"), (NOBODY, "nobody")):
            await store.set_info("t", config("c", f"https://example.com/{where}"), call)
        await store.set_info("t2", config("c"), ANNA)
        for call, where in ((ANNA, "anna"), (BEN, "ben"), (NOBODY, "nobody")):
            [kept] = await store.get_info("t", call)
            assert kept.url == f"https://example.com/{where}"
        assert len(await store.get_info_for_dispatch("t")) == 3
        await store.delete_info("t", BEN, "c")
        await store.delete_info("t", BEN)
        assert [one.url for one in await store.get_info_for_dispatch("t")] == [
            "https://example.com/anna",
            "https://example.com/nobody",
        ]


async def test_deleting_takes_one_config_or_all_of_a_task(url: str) -> None:
    async with open_backend(url) as backend:
        store = BackendPushNotificationConfigStore(backend)
        for id in ("a", "b", "c"):
            await store.set_info("t", config(id), ANNA)
        await store.delete_info("t", ANNA, "b")
        await store.delete_info("t", ANNA, "unknown")
        assert [one.id for one in await store.get_info("t", ANNA)] == ["a", "c"]
        await store.delete_info("t", ANNA)
        await store.delete_info("t", ANNA)
        assert await store.get_info("t", ANNA) == []


async def test_no_embedder_is_sent_a_token() -> None:
    class Watched(WordEmbedder):
        seen = ""

        async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
            self.seen += "".join(texts)
            return await super().embed(texts, purpose)

    embedder = Watched()
    async with open_backend("memory:", embedder=embedder) as backend:
        await BackendPushNotificationConfigStore(backend).set_info("t", config(), ANNA)
    assert embedder.seen
    assert "secret" not in embedder.seen


async def test_the_sender_of_the_sdk_tells_every_owner_of_the_task(url: str) -> None:
    told: list[tuple[str, str, str]] = []

    async def receive(request: httpx.Request) -> httpx.Response:
        [task] = json.loads(request.content).values()
        told.append((str(request.url), request.headers["X-A2A-Notification-Token"], task["id"]))
        return httpx.Response(200)

    async with (
        open_backend(url) as backend,
        httpx.AsyncClient(transport=httpx.MockTransport(receive)) as client,
    ):
        store = BackendPushNotificationConfigStore(backend)
        await store.set_info("t", config("1", "https://example.com/1"), ANNA)
        await store.set_info("t", config("2", "https://example.com/2"), BEN)
        await BasePushNotificationSender(client, store).send_notification("t", a_task())
    assert sorted(told) == [
        ("https://example.com/1", "secret of c", "t"),
        ("https://example.com/2", "secret of c", "t"),
    ]

"""The artifact service for Google ADK: what ADK asks of any, and savers that race."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs the extra google-adk")

from google.adk.artifacts.artifact_util import get_artifact_uri
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from stores_adapters.google_adk import BackendArtifactService
from stores_core import open_backend
from tests.meanwhile import repeating

HERS: Any = {"app_name": "app", "user_id": "anna"}
FILE: Any = {**HERS, "session_id": "s", "filename": "notes/a.txt"}
USERS: Any = {**HERS, "filename": "user:profile"}

PARTS = {
    "bytes": types.Part.from_bytes(data=b"\0\xff" * 100, mime_type="application/pdf"),
    "text": types.Part(text="ü🦊"),
    "a file elsewhere": types.Part(
        file_data=types.FileData(file_uri="https://x/y", mime_type="text/csv")
    ),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=list(PARTS))
async def test_an_artifact_comes_back_equal(url: str, part: types.Part) -> None:
    async with open_backend(url) as backend:
        service = BackendArtifactService(backend)
        assert await service.save_artifact(**FILE, artifact=part) == 0
        assert await service.load_artifact(**FILE) == part
        mapping = part.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert await service.save_artifact(**FILE, artifact=mapping) == 1
        assert await service.load_artifact(**FILE, version=1) == part


async def test_the_service_answers_as_that_of_adk(url: str) -> None:
    async def tried(service: Any) -> list[object]:
        answers: list[object] = []
        wheres: list[Any] = [FILE, USERS, {**FILE, "session_id": "s 2"}]
        for where in wheres:
            for text in ("one", "two"):
                part = types.Part(text=text)
                answers.append(
                    await service.save_artifact(
                        **where, artifact=part, custom_metadata={"is": text}
                    )
                )
        for where in wheres[:2]:
            for version in (None, 0, 1, 2, -1):
                answers.append(await service.load_artifact(**where, version=version))
                about = await service.get_artifact_version(**where, version=version)
                answers.append(about and (about.version, about.mime_type, about.custom_metadata))
            answers.append(await service.list_versions(**where))
            answers.append(len(await service.list_artifact_versions(**where)))
        for session in (None, "s", "other"):
            answers.append(await service.list_artifact_keys(**HERS, session_id=session))
        answers.append(await service.list_artifact_keys(app_name="app", user_id="ben"))
        await service.delete_artifact(**FILE)
        await service.delete_artifact(**FILE)
        answers += [
            await service.load_artifact(**FILE),
            await service.list_versions(**FILE),
            await service.list_artifact_versions(**FILE),
            await service.list_artifact_keys(**HERS, session_id="s"),
            await service.load_artifact(**wheres[2]),
            await service.save_artifact(**FILE, artifact=types.Part(text="anew")),
        ]
        return answers

    async with open_backend(url) as backend:
        ours = await tried(BackendArtifactService(backend))
        assert ours == await tried(InMemoryArtifactService())


async def test_a_file_of_the_user_is_the_same_in_every_session(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendArtifactService(backend)
        await service.save_artifact(**USERS, session_id="s", artifact=types.Part(text="me"))
        got = await service.load_artifact(**USERS, session_id="other")
        assert got == types.Part(text="me")
        [about] = await service.list_artifact_versions(**USERS)
        assert about.canonical_uri == get_artifact_uri("app", "anna", "user:profile", 0)


async def test_a_reference_is_followed_within_its_scope_alone(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendArtifactService(backend)
        await service.save_artifact(**FILE, artifact=types.Part(text="old"))
        await service.save_artifact(**FILE, artifact=types.Part(text="new"))

        def to(uri: str) -> types.Part:
            return types.Part(file_data=types.FileData(file_uri=uri))

        [first, _] = await service.list_artifact_versions(**FILE)
        link: Any = {**FILE, "filename": "link"}
        await service.save_artifact(**link, artifact=to(first.canonical_uri))
        assert await service.load_artifact(**link) == types.Part(text="old")
        for uri in (get_artifact_uri("app", "ben", "x", 0), "artifact://nonsense"):
            with pytest.raises(InputValidationError):
                await service.save_artifact(**link, artifact=to(uri))
        itself = get_artifact_uri("app", "anna", "loop", 0, "s")
        loop: Any = {**FILE, "filename": "loop"}
        await service.save_artifact(**loop, artifact=to(itself))
        with pytest.raises(InputValidationError):
            await service.load_artifact(**loop)


async def test_what_is_no_artifact_or_has_no_session_is_refused() -> None:
    async with open_backend("memory:") as backend:
        service = BackendArtifactService(backend)
        with pytest.raises(InputValidationError):
            await service.save_artifact(**FILE, artifact=types.Part())
        with pytest.raises(InputValidationError):
            await service.save_artifact(**HERS, filename="f", artifact=types.Part(text="x"))
        assert (await backend.runs.list_runs()).runs == ()


async def test_what_a_rewound_session_saves_means_that_the_file_is_not_there(url: str) -> None:
    async with open_backend(url) as backend:
        service = BackendArtifactService(backend)
        await service.save_artifact(**FILE, artifact=types.Part(text="x"))
        gone = types.Part.from_bytes(data=b"", mime_type="application/octet-stream")
        await service.save_artifact(**FILE, artifact=gone)
        assert await service.load_artifact(**FILE) is None
        assert await service.load_artifact(**FILE, version=0) == types.Part(text="x")


async def test_savers_that_race_have_a_version_each(url: str) -> None:
    async with open_backend(url) as backend:
        parts = [types.Part(text=f"{number}") for number in range(8)]
        calls = [
            BackendArtifactService(backend).save_artifact(**FILE, artifact=part) for part in parts
        ]
        versions = await asyncio.gather(*calls)
        assert sorted(versions) == list(range(8))
        service = BackendArtifactService(backend)
        for version, part in zip(versions, parts, strict=True):
            assert await service.load_artifact(**FILE, version=version) == part


async def test_a_save_that_is_repeated_below_the_service_is_one_version(url: str) -> None:
    async with open_backend(url, interceptors=[repeating("append_messages")]) as backend:
        service = BackendArtifactService(backend)
        assert await service.save_artifact(**FILE, artifact=types.Part(text="x")) == 0
        assert await service.save_artifact(**FILE, artifact=types.Part(text="y")) == 1

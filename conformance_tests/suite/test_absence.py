"""What a backend declares, and that what it lacks is refused and leaves no trace."""

import pytest

from conformance_tests.lab import Lab
from conformance_tests.opener import find
from conformance_tests.proves import proves
from conformance_tests.suite.notes import listed, write
from conformance_tests.suite.operations import PROTOCOLS, bound, operations, requests, unused
from conformance_tests.suite.spelled import Spelled
from stores_core import Capability, Durability, InvalidRequestError


@pytest.mark.parametrize("store", PROTOCOLS)
@proves("ALL-12", look_at="the stores that the Backend was made with")
async def test_a_store_that_is_not_offered_says_so_and_one_that_is_has_every_operation(
    lab: Lab, store: str
) -> None:
    for client in (lab.backend, lab.reader):
        if store in client.offered:
            for name in operations(store):
                assert callable(bound(client, store, name))
            continue
        with pytest.raises(InvalidRequestError) as refused:
            getattr(client, store)
        assert refused.value.field == store
        assert client.name in str(refused.value)


@proves("ALL-7", look_at="the capabilities and the durability that the Backend was made with")
async def test_what_a_backend_declares_is_of_the_known_words_and_fits_what_it_offers(
    lab: Lab,
) -> None:
    for client in (lab.backend, lab.reader):
        assert client.name
        assert type(client.durability) is Durability
        assert all(type(word) is Capability for word in client.capabilities)
        assert (Capability.MOVABLE in client.capabilities) == ("moving" in client.offered)
        if Capability.EMBEDDINGS in client.capabilities:
            assert "memory" in client.offered
    assert lab.reader.capabilities == lab.backend.capabilities
    assert lab.reader.durability == lab.backend.durability
    assert lab.reader.offered == lab.backend.offered


@proves("ALL-6", needs=("admin",), look_at="what admin.check says of settings that may lose writes")
async def test_check_warns_where_what_was_acknowledged_may_be_lost(lab: Lab) -> None:
    levels = [lab.backend]
    if lab.opener.takes("durability"):
        levels += [await lab.open(durability=level) for level in ("disk", "client")]
    for client in levels:
        found = await client.admin.check()
        assert type(found.durability) is Durability
        if found.durability in (Durability.NONE, Durability.CLIENT):
            assert found.warnings, f"nothing warns of the durability {found.durability.value}"


@proves("EMB-5", needs=("memory",), look_at="an embedder that a backend takes and never asks")
async def test_a_backend_without_embeddings_refuses_an_embedder(
    lab: Lab, pytestconfig: pytest.Config
) -> None:
    if Capability.EMBEDDINGS in lab.backend.capabilities:
        lab.not_applicable("the backend recalls by embedding")
    option = pytestconfig.option
    if not find(option.opener, option.url).takes("embedder"):
        lab.not_applicable("the opener takes no embedder, so nobody can pass one")
    with pytest.raises(InvalidRequestError) as refused:
        await lab.open(embedder=Spelled())
    assert refused.value.field == "embedder"


@proves("SUB-2", "EMB-5", needs=("memory",), look_at="recall where no embedder was passed")
async def test_without_an_embedder_recall_is_by_substring(lab: Lab) -> None:
    space = lab.new_id("notes")
    await write(lab.backend, space, "k1", "one needle")
    await write(lab.backend, space, "k2", "another")
    assert await listed(lab.reader, space, query="NEEDLE") == ["k1"]
    assert await listed(lab.reader, space, query="a word that is not there") == []


@pytest.mark.parametrize("store", PROTOCOLS)
@proves("ALL-2", look_at="the front: it takes a request or its fields, and nothing else")
async def test_an_unknown_field_is_refused_by_every_operation(lab: Lab, store: str) -> None:
    if store not in lab.backend.offered:
        lab.not_applicable(f"the backend offers no `{store}`")
    for name in operations(store):
        fits = requests(store, name, unused(lab))[0]
        with pytest.raises(InvalidRequestError) as refused:
            await bound(lab.backend, store, name)(**fits, no_such_field=1)
        assert refused.value.field == "no_such_field"
        with pytest.raises(InvalidRequestError):
            await bound(lab.backend, store, name)("no request")

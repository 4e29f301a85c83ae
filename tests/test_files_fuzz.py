"""Damaged files end in an error of ours or in what was written, never in anything else."""

import sys
from unittest.mock import patch

import pytest

from stores_core.errors import StoreError
from stores_files import batches, places, scanning
from tests.files_fuzz import examine
from tests.files_simulated import SimulatedDisk
from tests.files_steps import prepared, snapshot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files need flock and links")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(1_000, 1_010))
def test_damage_is_told_and_nothing_else_is_shown(seed: int) -> None:
    # The long run is ``python -m tests.files_fuzz``: 200,000 inputs.
    assert examine(1_000, seed) == []


def _always(entries: bytes, line: bytes) -> bool:
    return True


def _zero(text: bytes) -> int:
    return 0


@pytest.mark.long
def test_the_fuzz_sees_journals_without_sums() -> None:
    with patch.object(batches, "is_whole", _always), patch.object(scanning, "is_whole", _always):
        assert examine(1_000, 1)


def headers_flipped() -> list[int]:
    """The bytes of a header of which a flipped bit goes unseen and shows something else."""
    nodes, unseen = prepared(), list[int]()
    right = snapshot(SimulatedDisk(dict(nodes)))
    (inode,) = (
        inode
        for inode, node in nodes.items()
        if isinstance(node, bytes) and node.startswith(b'{"run":"e"')
    )
    header = nodes[inode]
    assert isinstance(header, bytes)
    for at in range(len(header)):
        flipped = header[:at] + bytes([header[at] ^ 1]) + header[at + 1 :]
        try:
            if snapshot(SimulatedDisk({**nodes, inode: flipped})) != right:
                unseen.append(at)
        except StoreError:
            pass
    return unseen


def test_no_flipped_bit_of_a_header_goes_unseen() -> None:
    assert headers_flipped() == []
    with patch.object(places, "crc32", _zero):
        assert headers_flipped(), "the test sees nothing"

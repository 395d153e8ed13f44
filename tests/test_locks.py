"""Lists of files with their hashes pin what constraints.txt pins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
LINE = re.compile(r"([a-z0-9.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def pinned() -> dict[str, str]:
    """Of constraints.txt, for Python 3.11 and later."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    kept = (line for line in lines if line[:1] != "#" and '< "3.11"' not in line)
    return dict(line.split(";")[0].split("==") for line in kept)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_has_a_hash_for_every_file_and_the_versions_of_the_constraints(
    lock: Path,
) -> None:
    lines = [line for line in lock.read_text().splitlines() if line[:1] != "#"]
    found = [LINE.fullmatch(line) for line in lines]
    assert None not in found, lines[found.index(None)]
    versions = {match[1]: match[2] for match in found if match}
    wanted = {name: version for name, version in pinned().items() if name != "torch"}
    assert {name: versions.get(name) for name in wanted} == wanted
    assert "torch" not in versions


def test_there_is_a_lock() -> None:
    assert LOCKS

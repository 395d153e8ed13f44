"""Stores of matches are written as a whole, whenever the writer is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from semisure.errors import FileError
from semisure.io import hloc, journal
from semisure.synthetic import SyntheticMatcher

pytest.importorskip("h5py")
MATCHES, _ = SyntheticMatcher().match(np.eye(3), count=200)
JOURNAL = "m.h5.journal"

# In each child one more line of the module runs before the child kills itself.
KILLED_EVERYWHERE = """
import os, shutil, signal, sys
import numpy as np
from semisure.io import hloc, journal
from semisure.synthetic import SyntheticMatcher

matches, _ = SyntheticMatcher().match(np.eye(3), count=200)
folder = sys.argv[1]
path = folder + "/m.h5"
hloc.write_matches(folder + "/before.h5", "a", "b", matches.take(np.arange(10)))


def write_and_die(after):
    left = after

    def tracer(frame, event, arg):
        nonlocal left
        if frame.f_code.co_filename != journal.__file__:
            return None
        if event == "line" and frame.f_code.co_name in {"_commit", "_append", "_apply"}:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return tracer

    sys.settrace(tracer)
    hloc.write_matches(path, "a", "b", matches.take(np.arange(20)))
    hloc.write_matches(path, "a", "c", matches.take(np.arange(30)))


after, found, finished = 0, set(), 0
while True:
    shutil.copy(folder + "/before.h5", path)
    child = os.fork()
    if child == 0:
        write_and_die(after)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    finished += os.path.exists(path + ".journal")
    first = len(hloc.read_matches(path, "a", "b"))
    second = hloc.has_matches(path, "a", "c") and len(hloc.read_matches(path, "a", "c"))
    assert not os.path.exists(path + ".journal")
    found.add((first, int(second)))
    after += 1
print(sorted(found), after > 30, finished > 10)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_writer_leaves_the_old_pairs_or_the_new_ones(tmp_path: Path) -> None:
    """Killed before each line that writes: a pair is old, new or, if added, absent."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED_EVERYWHERE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout == "[(10, 0), (20, 0), (20, 30)] True True\n"


def interrupted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a journal beside the file, and the file half changed."""

    def half(file, size, pages) -> None:
        number = min(pages)
        file.seek(number * 4096)
        file.write(pages[number])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(journal, "_apply", half)
        with pytest.raises(KeyboardInterrupt):
            hloc.write_matches(path, "a", "b", MATCHES)


def test_the_next_reader_finishes_what_was_interrupted(tmp_path, monkeypatch) -> None:
    path = tmp_path / "m.h5"
    hloc.write_matches(path, "a", "b", MATCHES.take(np.arange(10)))
    interrupted(path, monkeypatch)
    assert (tmp_path / JOURNAL).exists()
    assert len(hloc.read_matches(path, "a", "b")) == 200
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.h5"]


def test_a_journal_changes_no_other_file_of_the_name(tmp_path, monkeypatch) -> None:
    path = tmp_path / "m.h5"
    hloc.write_matches(path, "a", "b", MATCHES.take(np.arange(10)))
    interrupted(path, monkeypatch)
    kept = (tmp_path / JOURNAL).read_bytes()
    path.unlink()
    hloc.write_matches(path, "a", "c", MATCHES)  # deleted, and begun anew
    another = path.read_bytes()
    (tmp_path / JOURNAL).write_bytes(kept)
    assert not hloc.has_matches(path, "a", "b")
    assert path.read_bytes() == another
    assert not (tmp_path / JOURNAL).exists()


@pytest.mark.parametrize("damage", [b"", b"not a journal", b"cut"])
def test_a_damaged_journal_is_left_out(tmp_path, damage, monkeypatch) -> None:
    path = tmp_path / "m.h5"
    hloc.write_matches(path, "a", "b", MATCHES)
    whole = path.read_bytes()
    if damage == b"cut":
        interrupted(path, monkeypatch)
        damage = (tmp_path / JOURNAL).read_bytes()[:-100]
        path.write_bytes(whole)
    (tmp_path / JOURNAL).write_bytes(damage)
    assert hloc.has_matches(path, "a", "b")
    assert path.read_bytes() == whole


def test_two_writers_at_once_are_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "m.h5"
    with (
        journal.changing(path),
        pytest.raises(FileError, match="another process is writing it"),
    ):
        hloc.write_matches(path, "a", "b", MATCHES)


def test_what_is_not_hdf5_is_neither_read_nor_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    path.write_bytes(b"the user's own text")
    with pytest.raises(FileError, match="not a readable HDF5 file"):
        hloc.write_matches(path, "a", "b", MATCHES)
    assert path.read_bytes() == b"the user's own text"


def test_changes_are_pages_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)) * 40)  # 2.5 pages
    with journal.changing(path) as file:
        file.seek(4090)
        file.write(b"abcdefghij")  # over the border of two pages
        file.seek(10_300)
        file.write(b"end")  # beyond the end
        file.seek(4088)
        assert file.read(14) == bytes([248, 249]) + b"abcdefghij" + bytes([4, 5])
        assert path.stat().st_size == 10_240
    after = path.read_bytes()
    assert len(after) == 10_303
    assert after[10_240:] == bytes(60) + b"end"
    assert after[4088:4102] == bytes([248, 249]) + b"abcdefghij" + bytes([4, 5])

"""Maps and stores of matches that are cut short, altered or full of nonsense."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from semisure.errors import FileError
from semisure.io import hloc
from semisure.io.colmap import MapModel, read_model
from semisure.mapping.sources import stored
from semisure.synthetic import SyntheticMatcher

# As COLMAP writes them, with its comments.
TEXTS = {
    "cameras": "# Camera list with one line of data per camera:\n"
    "# Number of cameras: 2\n"
    "7 SIMPLE_RADIAL 640 480 500 320 240 0.1\n9 PINHOLE 10 10 1 1 1 1\n",
    "images": "# Number of images: 2, mean observations per image: 1\n"
    "1 1 0 0 0 0.5 -1 2 7 db/one.jpg\n10.5 20.5 3 30.5 40.5 -1 50.5 60.5 5\n"
    "2 0 1 0 0 0 0 1 7 db/two.jpg\n\n",
    "points3D": "# Number of points: 2, mean track length: 1\n"
    "5 1 2 3 255 0 0 0.5 1 2\n3 -1 -2 -3 0 0 0 1.5 1 0\n",
}


def write_texts(folder: Path, **changed: str) -> Path:
    for name, text in {**TEXTS, **changed}.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def told(model: MapModel) -> str:
    return repr([model.cameras, model.point_ids, model.world, model.error_px]) + repr(
        [(i.name, i.pose, i.points, i.point_ids) for i in model.images.values()]
    )


def test_no_truncated_text_is_taken_for_a_whole_map(tmp_path: Path) -> None:
    whole = told(read_model(write_texts(tmp_path)))
    accepted = []
    for name, text in TEXTS.items():
        for length in range(len(text)):
            write_texts(tmp_path, **{name: text[:length]})
            try:
                model = read_model(tmp_path)
            except FileError:
                continue
            if told(model) != whole:
                accepted.append((name, length))
    assert accepted == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("points3D", "5 1 2 3", f"{2**63} 1 2 3"),
        ("points3D", "5 1 2 3", "5 nan 2 3"),
        ("points3D", "5 1 2 3", "5 1e400 2 3"),
        ("images", "10.5 20.5 3", f"10.5 20.5 {2**63}"),
        ("images", "10.5 20.5 3", "nan 20.5 3"),
        ("images", "10.5 20.5 3", "10.5 20.5 nan"),
        ("images", "1 1 0 0 0", "1 nan 0 0 0"),
        ("images", "1 1 0 0 0", "1 0 0 0 0"),
        ("images", "-1 2 7 db/one", "-1 2 8 db/one"),
        ("images", "10.5 20.5 3", "10.5 20.5 4"),
        ("cameras", "500 320", "nan 320"),
    ],
)
def test_nonsense_in_a_text_is_one_sentence(tmp_path, name, old, new) -> None:
    text = TEXTS[name].replace(old, new)
    assert text != TEXTS[name]
    with pytest.raises(FileError):
        read_model(write_texts(tmp_path, **{name: text}))


def test_points_without_a_landmark_may_be_written_either_way(tmp_path: Path) -> None:
    text = TEXTS["images"].replace("40.5 -1", f"40.5 {2**64 - 1}")
    model = read_model(write_texts(tmp_path, images=text))
    assert model.images["db/one.jpg"].point_ids.tolist() == [3, -1, 5]


def test_identities_beyond_63_bits_in_bytes_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "cameras.bin").write_bytes(
        struct.pack("<QiiQQ4d", 1, 7, 2, 640, 480, 500, 320, 240, 0.1)
    )
    (tmp_path / "images.bin").write_bytes(struct.pack("<Q", 0))
    point = struct.pack("<Q3d3BdQ", 2**63, 1, 2, 3, 9, 9, 9, 0.5, 0)
    (tmp_path / "points3D.bin").write_bytes(struct.pack("<Q", 1) + point)
    with pytest.raises(FileError, match=r"points3D\.bin is damaged or truncated"):
        read_model(tmp_path)


# -- matches in HDF5


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="needs the extra store")


MATCHES, _ = SyntheticMatcher().match(np.eye(3), count=40)


SIZES = ("source_size", "target_size")
ARRAYS = (
    "keypoints0", "keypoints1", "scores", "fine_std", "coarse_std", "side",
    "fine_window",
)  # fmt: skip


@pytest.mark.parametrize("part", [*ARRAYS, *SIZES])
def test_a_pair_without_one_of_its_parts_is_one_sentence(tmp_path, part, h5py) -> None:
    path = tmp_path / "m.h5"
    hloc.write_matches(path, "a", "b", MATCHES)
    with h5py.File(path, "a") as file:
        group = file["a/b"]
        del (group.attrs if part in SIZES else group)[part]
    with pytest.raises(FileError, match=f"a, b without {part}"):
        hloc.read_matches(path, "a", "b")


def test_a_group_where_an_array_should_be_is_one_sentence(tmp_path, h5py) -> None:
    path = tmp_path / "m.h5"
    hloc.write_matches(path, "a", "b", MATCHES)
    with h5py.File(path, "a") as file:
        del file["a/b/scores"]
        file.create_group("a/b/scores")
    with pytest.raises(FileError, match="a, b, but it cannot be read"):
        hloc.read_matches(path, "a", "b")
    with h5py.File(path, "a") as file:
        del file["a/b"]
        file["a/b"] = np.zeros(3)
    with pytest.raises(FileError, match="a, b"):
        hloc.read_matches(path, "a", "b")


@pytest.mark.slow
def test_no_flipped_bit_is_read_back_differently(tmp_path: Path, h5py) -> None:
    path = tmp_path / "m.h5"
    hloc.write_matches(path, "a", "b", MATCHES)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    # The superblock and the heads of objects are small; arrays are the rest.
    places = [*range(0, 800, 7), *rng.integers(0, len(whole), 150)]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        try:
            back = hloc.read_matches(path, "a", "b")
        except FileError:
            continue
        assert np.array_equal(back.source, MATCHES.source), place
        assert np.array_equal(back.coarse_std, MATCHES.coarse_std), place
        assert back.target_size == MATCHES.target_size, place


def test_matches_of_another_matcher_are_not_taken_from_a_store(tmp_path, h5py) -> None:
    path, calls = tmp_path / "m.h5", []

    def source(query: str, mapped: str):
        calls.append(query)
        return MATCHES

    for made_of, count in (("one", 1), ("one", 1), ("another", 2), ("another", 2)):
        stored(source, path, made_of)("q", "m")
        assert len(calls) == count, made_of
    # A file that does not say is the user's own, and is believed.
    hloc.write_matches(path, "q", "m", MATCHES)
    stored(source, path, "one")("q", "m")
    assert len(calls) == 2


FULL_DISK = """
import resource, sys
import numpy as np
from semisure.errors import FileError
from semisure.io import hloc
from semisure.synthetic import SyntheticMatcher
matches, _ = SyntheticMatcher().match(np.eye(3), count=20_000)
hloc.write_matches(sys.argv[1], "a", "b", matches.take(np.arange(10)))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
try:
    hloc.write_matches(sys.argv[1], "a", "c", matches)
except FileError as error:
    print(error)
print(len(hloc.read_matches(sys.argv[1], "a", "b")))
"""


def test_a_full_disk_is_one_sentence_and_the_old_pairs_stay(tmp_path, h5py) -> None:
    """No file may exceed half a megabyte; the arrays of 20,000 matches have two."""
    path = tmp_path / "m.h5"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.splitlines()[0].startswith(f"{path} cannot be written: ")
    assert done.stdout.splitlines()[1] == "10"

"""Stores that are damaged or come from a stranger, and outputs that others need."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs the extra store")


from semisure.errors import FileError, FitError, InputError
from semisure.io.store import Manifest, Store
from semisure.mapping.export import ExportSettings, Format, export
from semisure.mapping.reconstruct import ReconstructionSettings
from semisure.pairs.lists import _note, image_names, unique_pairs
from semisure.pairs.settings import PairSettings
from semisure.synthetic import SyntheticMatcher
from semisure.types.pair_records import PairRecord

COUNT = 60


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.made(tmp_path / "store", Manifest(recipe={}))
    store.write("s", [a_pair("a.png", "b.png")])
    return store


def a_pair(first: str, second: str) -> PairRecord:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=COUNT)
    return PairRecord(
        image0=first,
        image1=second,
        state="sound",
        kind="homography",
        model=np.eye(3),
        matches=matches,
        weight=np.ones(COUNT),
        expected_px=np.ones(COUNT),
        fine_scale=np.full((COUNT, 2), 0.5),
    )


@pytest.mark.parametrize("to", get_args(Format))
@pytest.mark.parametrize("name", ["../../evil", "{}/evil", "~/evil", "..", "C:\\evil"])
def test_no_name_leads_out_of_the_output_folder(
    tmp_path: Path, name: str, to: Format
) -> None:
    if to != "csv":
        pytest.importorskip("h5py" if to == "hloc" else "pycolmap")
    store = Store.made(tmp_path / "in" / "store", Manifest(recipe={}))
    store.write("s", [a_pair(name.format(tmp_path), "b.png")])
    before = set(tmp_path.rglob("*"))
    made = export(store.name, to, tmp_path / "deep" / "out")
    after = {*tmp_path.rglob("*")} - before
    assert after == {*made.files, tmp_path / "deep", tmp_path / "deep" / "out"}


def test_names_that_no_store_can_hold_are_refused_before_the_work(
    tmp_path: Path,
) -> None:
    for name in ("a\nb.png", "a\0.png", "", os.fsdecode(b"\xff.png")):
        with pytest.raises(InputError, match=r"Rename the image|must have a name"):
            unique_pairs([("b.png", name)])
    for name in ("Bild 1.png", "ü\u202f.png"):
        (tmp_path / name).touch()
    assert len(unique_pairs([tuple(image_names(tmp_path))])) == 1


def test_hlocs_lists_cannot_hold_blanks_nor_its_files_like_names(
    tmp_path: Path,
) -> None:
    pytest.importorskip("h5py")
    blank = Store.made(tmp_path / "1", Manifest(recipe={}))
    blank.write("s", [a_pair("photo 1.jpg", "b.jpg")])
    with pytest.raises(InputError, match="part names at blanks"):
        export(blank.name, "hloc", tmp_path / "out")
    alike = Store.made(tmp_path / "2", Manifest(recipe={}))
    alike.write("s", [a_pair("x/1.jpg", "b.jpg"), a_pair("x-1.jpg", "b.jpg")])
    with pytest.raises(InputError, match="hloc's files cannot hold"):
        export(alike.name, "hloc", tmp_path / "out")
    assert not [*(tmp_path / "out").glob("*")]


def test_an_export_never_overwrites_what_it_reads(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    first = export(store.name, "hloc", tmp_path / "hloc")
    features = first.files[0]
    before = [file.read_bytes() for file in first.files]
    again = ExportSettings(reference=features)
    with pytest.raises(FileError, match=r"features\.h5 would be overwritten"):
        export(store.name, "hloc", tmp_path / "hloc", again)
    assert [file.read_bytes() for file in first.files] == before


def test_a_database_of_somebody_else_is_not_replaced(
    store: Store, tmp_path: Path
) -> None:
    pytest.importorskip("pycolmap")
    theirs = tmp_path / "database.db"
    with closing(sqlite3.connect(theirs)) as database:
        database.execute("CREATE TABLE keypoints (image_id INTEGER)")
        database.commit()
    before = theirs.read_bytes()
    with pytest.raises(FileError, match="semisure did not write it"):
        export(store.name, "colmap", tmp_path)
    assert theirs.read_bytes() == before
    theirs.unlink()
    first = export(store.name, "colmap", tmp_path)  # and ours is, as often as we like
    assert export(store.name, "colmap", tmp_path) == first


@pytest.mark.parametrize("folder", ["models", "model"])
def test_a_reconstruction_deletes_nothing_but_models(
    store: Store, tmp_path: Path, folder: str
) -> None:
    pytest.importorskip("pycolmap")
    from semisure.mapping.reconstruct import reconstruct

    mine = tmp_path / "project" / folder / "0" / "weights.pth"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(FileError, match="which no reconstruction wrote"):
        reconstruct(store.name, tmp_path / "project")
    assert mine.read_text() == "mine"
    shutil.rmtree(tmp_path / "project")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="is a file or a link"):
        reconstruct(store.name, tmp_path / "project")


def test_a_model_without_a_point_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pycolmap = pytest.importorskip("pycolmap")
    from semisure.mapping import reconstruct as mapping

    empty = {0: pycolmap.Reconstruction()}
    monkeypatch.setattr(mapping, "_incremental", lambda *_: empty)
    settings = ReconstructionSettings()
    with pytest.raises(FitError, match="No model could be made"):
        mapping.map_database(tmp_path / "d.db", tmp_path, tmp_path / "m", settings)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ExportSettings(cell_px=1e-300), "cell_px must lie between"),
        (lambda: ExportSettings(cell_px=float("nan")), "cell_px must lie between"),
        (lambda: ExportSettings(max_keypoints=-1), "max_keypoints must be"),
        (lambda: ReconstructionSettings(workers=-7), "workers must be at least 1"),
        (lambda: PairSettings(intrinsics=(float("nan"), 1, 1, 1)), "intrinsics must"),
        (lambda: PairSettings(intrinsics=(-5, 1, 1, 1)), "positive focal lengths"),
    ],
)
def test_absurd_settings_are_refused_before_the_work(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_a_strange_note_beside_frames_is_no_note(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    os.mkfifo(tmp_path / "pipe.json")
    assert _note(tmp_path / "deep.json") == _note(tmp_path / "pipe.json") == {}

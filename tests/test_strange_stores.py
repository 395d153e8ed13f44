"""Stores by strangers, and outputs that are in the way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs the extra store")

from semisure.errors import FileError, FitError, InputError
from semisure.io.store import Manifest, Store
from semisure.mapping.export import DATABASE, FILES, Format, export
from semisure.mapping.reconstruct import reconstruct
from semisure.pairs.lists import image_names, unique_pairs
from test_store import a_record


def a_store(folder: Path, *names: str) -> Store:
    """A store of the images of these names, each with b.png."""
    store = Store.made(folder, Manifest(recipe={}))
    for name in names or ("a.png",):
        store.write([a_record(image0=name, image1="b.png", model=np.eye(3))])
    return store


@pytest.mark.parametrize("to", get_args(Format))
@pytest.mark.parametrize("name", ["../../evil", "{}/evil"])
def test_no_name_leads_out_of_the_output_folder(
    tmp_path: Path, name: str, to: Format
) -> None:
    if to != "csv":
        pytest.importorskip("h5py" if to == "hloc" else "pycolmap")
    store = a_store(tmp_path / "in" / "store", name.format(tmp_path))
    before = set(tmp_path.rglob("*"))
    made = export(store.folder, to, tmp_path / "deep" / "out")
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
    blank = a_store(tmp_path / "1", "photo 1.jpg")
    with pytest.raises(InputError, match="split names at blanks"):
        export(blank.folder, "hloc", tmp_path / "out")
    alike = a_store(tmp_path / "2", "x/1.jpg", "x-1.jpg")
    with pytest.raises(InputError, match="hloc's files cannot hold"):
        export(alike.folder, "hloc", tmp_path / "out")
    assert not [*(tmp_path / "out").glob("*")]


@pytest.mark.parametrize("to", get_args(Format))
def test_an_export_replaces_no_file(tmp_path: Path, to: Format) -> None:
    store, theirs = a_store(tmp_path / "store"), tmp_path / FILES[to][0]
    theirs.write_text("precious")
    with pytest.raises(FileError, match="exists already"):
        export(store.folder, to, tmp_path)
    assert theirs.read_text() == "precious"
    assert {*tmp_path.iterdir()} == {store.folder, theirs}


def test_a_reconstruction_replaces_nothing_and_leaves_no_debris(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    store, project = a_store(tmp_path / "store"), tmp_path / "project"
    with pytest.raises(FitError, match="No model could be made"):  # of one plane
        reconstruct(store.folder, project)
    assert [*project.iterdir()] == []
    for name in (DATABASE, "models", "model"):
        (project / name).mkdir()
        with pytest.raises(FileError, match="exists already"):
            reconstruct(store.folder, project)
        (project / name).rmdir()

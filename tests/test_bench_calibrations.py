"""Where the laws of a bench come from, and that a stripped law is never the paper's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from semisure.bench.arms import Calibrations
from semisure.bench.calibrations import unfitted
from semisure.bench.options import Options
from semisure.bench.run import run_bench
from semisure.errors import InputError
from semisure.io.files import load_calibration, save_calibration
from semisure.types import Calibration


@pytest.fixture
def located(tmp_path: Path) -> str:
    """A file with a law that was fitted with a location."""
    path = tmp_path / "mine.json"
    save_calibration(replace(load_calibration("daisy"), location=(0.05, 0.0)), path)
    return str(path)


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """A file with a law that was fitted without one."""
    path = tmp_path / "plain.json"
    save_calibration(replace(load_calibration("daisy"), spread_slope=0.5), path)
    return str(path)


def law_of(path: str) -> Calibration:
    return load_calibration(path)


def options(**changed) -> Options:
    return Options(data=[Path("data")], **changed)


def test_a_law_without_a_location_serves_both_arms(plain: str) -> None:
    both, remark = unfitted(options(calibration=plain), "daisy")
    assert both == Calibrations(law_of(plain), law_of(plain))
    assert remark == "daisy: calibration plain.json."


def test_a_law_with_a_location_asks_for_a_faithful_one(located: str) -> None:
    with pytest.raises(InputError) as raised:
        unfitted(options(calibration=located), "daisy")
    sentence = str(raised.value)
    assert sentence.startswith(f"{located} was fitted with a location")
    assert "add --faithful FILE" in sentence
    assert "give --calibrate-on FOLDER instead" in sentence
    # Told before any pair is looked for, let alone matched.
    with pytest.raises(InputError, match="fitted with a location"):
        run_bench("homography", options(calibration=located))


def test_the_faithful_law_is_the_papers(located: str, plain: str) -> None:
    asked = options(calibration=located, faithful=plain)
    both, remark = unfitted(asked, "daisy")
    assert both == Calibrations(law_of(plain), law_of(located))
    assert both.of_arm("core+") == law_of(located)
    assert both.of_arm("core") == both.of_arm("huber") == law_of(plain)
    assert remark == (
        "daisy: calibration mine.json for core+, plain.json for the paper's arms."
    )


def test_a_faithful_law_has_no_location_and_goes_with_another(located: str) -> None:
    with pytest.raises(InputError, match="must be a law without a location, but"):
        unfitted(options(calibration=located, faithful=located), "daisy")
    with pytest.raises(InputError, match="--faithful goes with --calibration"):
        options(faithful=located)
    with pytest.raises(InputError, match="must be fitted without a location"):
        Calibrations(law_of(located), law_of(located))


@pytest.mark.parametrize("asked", [{}, {"calibration": "xfeat-star"}])
def test_the_shipped_pair_of_laws_is_kept_together(asked: dict[str, str]) -> None:
    both, _ = unfitted(options(**asked), "xfeat-star")
    faithful = load_calibration("xfeat-star-faithful")
    assert both == Calibrations(faithful, load_calibration("xfeat-star"))
    assert both.ours.location is not None


def test_a_file_beside_a_shipped_name_is_no_shipped_law(
    located: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "xfeat-star").write_bytes(Path(located).read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="xfeat-star was fitted with a location"):
        unfitted(options(calibration="xfeat-star"), "xfeat-star")


def test_shipped_without_a_location_serves_both_arms() -> None:
    both, remark = unfitted(options(), "daisy")
    assert both.paper == both.ours == load_calibration("daisy")
    assert "the shipped calibration" in remark

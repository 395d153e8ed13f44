"""Claims that are not to be trusted say so: calibrations, models, verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from semisure.calibration import observe
from semisure.cli import app
from semisure.io.files import load_calibration, save_calibration
from semisure.io.images import write_png
from semisure.selfcal.held_out import trial, tried
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher


@pytest.fixture
def blocks(tmp_path: Path) -> list[str]:
    """A picture of blocks and the same moved by (14, 9) px."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (30, 40), np.uint8).repeat(8, 0).repeat(8, 1)
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    write_png(files[0], image)
    write_png(files[1], np.roll(image, (9, 14), axis=(0, 1)))
    return [str(file) for file in files]


def test_a_calibration_carries_the_trial_that_it_failed(tmp_path: Path) -> None:
    held_out = observe([SyntheticMatcher().match(np.eye(3), count=500)])
    fine, coarse = (
        EXAMPLE_CALIBRATION.fine_var_gain,
        EXAMPLE_CALIBRATION.coarse_var_gain,
    )
    # Gains multiply variances: a ninth of each makes every scale a third.
    sure = replace(
        EXAMPLE_CALIBRATION,
        fine_var_gain=(fine[0] / 9, fine[1] / 9),
        coarse_var_gain=(coarse[0] / 9, coarse[1] / 9),
    )
    for calibration, trusted in ((EXAMPLE_CALIBRATION, True), (sure, False)):
        trust = trial(held_out, calibration)
        assert trust.trusted is trusted
        path = tmp_path / "theta.json"
        save_calibration(tried(calibration, trust), path)
        caution = load_calibration(path).caution
        assert (caution is None) is trusted
    assert caution is not None
    assert f"predicted {trust.expected_px:.2f} px" in caution


def test_later_commands_warn_of_a_calibration_that_failed(
    blocks: list[str], tmp_path: Path
) -> None:
    trial = {"expected_px": 0.97, "observed_px": 2.4, "trusted": False}
    failed = replace(load_calibration("daisy"), provenance={"trial": trial})
    save_calibration(failed, tmp_path / "theta.json")
    done = CliRunner().invoke(
        app, ["match", *blocks, "-c", str(tmp_path / "theta.json")]
    )
    assert done.exit_code == 0, done.output
    assert "Warning: This calibration is not to be trusted" in done.stderr
    assert "Warning" not in done.stdout


def test_a_calibration_of_another_matcher_needs_force(blocks: list[str]) -> None:
    foreign = ["match", *blocks, "-c", "xfeat-star"]
    refused = CliRunner().invoke(app, foreign)
    assert refused.exit_code != 0
    assert "is of xfeat-star, not of daisy" in str(refused.exception)
    forced = CliRunner().invoke(app, [*foreign, "--force"])
    assert forced.exit_code == 0, forced.output
    assert "Warning: The calibration xfeat-star is of xfeat-star" in forced.stderr

"""A law that adapts to its pair: effects planted, found, and carried along lines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import semisure
from semisure import mixture
from semisure.errors import FileError, InputError
from semisure.geometry import epipolar, fundamental
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.metrics import coverage
from semisure.pipeline import Model, refit_matches
from semisure.refit.line_law import two_laplace
from semisure.refit.pair_law import (
    pair_law_by_lines,
    pair_law_by_residuals,
    predictive_law,
    with_effects,
)
from semisure.selfcal.scenes import ScenePair, fit_scenes
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import Calibration, Matches, PairSpread, PerAxis

SPREAD = PairSpread(
    fine=(0.0, 0.4),
    gate=(0.0, 1.0),
    coarse=(0.0, 0.5),
    background=(-5.0, 1.0),
    along_fine=0.5,
    along_gate=0.6,
    carry=0.5,
)
ADAPTING = replace(EXAMPLE_CALIBRATION, pairs=SPREAD)
K = np.array([[520.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
P_01 = epipolar.checked_pose(se3.moved(np.eye(3, 4), [0.02, 0.1, 0.05, 1, 0.1, 0.3]))
F_01 = fundamental.of_rank_2(epipolar.fundamental(P_01, K, K))


def matcher(fine: float, gate: float) -> SyntheticMatcher:
    """One whose fine scales and gate differ from the example's by these effects."""
    law = EXAMPLE_CALIBRATION
    gain = np.exp(2 * fine) * np.array(law.fine_var_gain)
    shifted = gate + np.array(law.intercept)
    return SyntheticMatcher(
        replace(
            law,
            fine_var_gain=(gain[0], gain[1]),
            intercept=(shifted[0], shifted[1]),
        )
    )


def test_a_sum_of_two_laplace_variables_has_that_density() -> None:
    """By hand at scales 2 and 1, d = 0: (2 − 1) / (2 (4 − 1)) = 1/6; and ∫ p = 1."""
    two, one = np.array([2.0]), np.array([1.0])
    assert two_laplace(np.zeros(1), two, one)[0] == pytest.approx(1 / 6)
    assert two_laplace(np.zeros(1), one, one)[0] == pytest.approx(1 / 4)
    d = np.linspace(-80, 80, 160_001)
    both = np.ones_like(d)
    assert np.trapezoid(two_laplace(d, 3 * both, both), d) == pytest.approx(1, abs=1e-6)


def test_effects_of_nothing_leave_the_law_alone() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=50)
    law = semisure.error_law(matches, ADAPTING)
    none = np.array([0.0, 0.0, 0.0, -50.0])
    same = with_effects(law, none, SPREAD)
    assert np.allclose(same.fine_scale, law.fine_scale)
    assert np.allclose(same.tail_logit, law.tail_logit, atol=1e-9)


@pytest.mark.parametrize(("fine", "gate"), [(0.0, 0.0), (0.6, 0.0), (-0.5, 1.2)])
def test_planted_effects_are_found_by_residuals(fine: float, gate: float) -> None:
    H = random_homography(np.random.default_rng(4))
    matches, residual = matcher(fine, gate).match(H, count=4000, seed=1)
    found = pair_law_by_residuals(matches, ADAPTING, residual)
    assert found.effects[0] == pytest.approx(fine, abs=0.15)
    observed = (np.abs(residual) > 8.0).mean()
    predicted = mixture.prob_beyond(found.law, 8.0).mean()
    assert predicted == pytest.approx(observed, rel=0.25)


@pytest.mark.parametrize(("fine", "gate"), [(0.0, 0.0), (0.6, 0.0), (-0.5, 1.2)])
def test_planted_effects_are_found_by_lines(fine: float, gate: float) -> None:
    views, _ = matcher(fine, gate).match_views(P_01, K, count=4000, seed=2)
    lines = epipolar.lines_of(F_01[None], views)
    found = pair_law_by_lines(views, ADAPTING, lines)
    assert found.effects[0] == pytest.approx(fine, abs=0.2)


def test_an_adapted_law_covers_where_the_matchers_does_not() -> None:
    H = random_homography(np.random.default_rng(4))
    matches, residual = matcher(0.7, 0.5).match(H, count=4000, seed=3)
    before = coverage(
        mixture.cdf(semisure.error_law(matches, ADAPTING), residual), [0.5, 0.9]
    )
    law = pair_law_by_residuals(matches, ADAPTING, residual).law
    after = coverage(mixture.cdf(law, residual), [0.5, 0.9])
    assert before[0] < 0.4
    assert after == pytest.approx([0.5, 0.9], abs=0.04)


def test_errors_along_a_line_are_larger_by_what_is_carried() -> None:
    """At effects of their means the factor along is e^0.5, across it 1, by hand."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=5)
    law = semisure.error_law(matches, ADAPTING)
    along_x = np.tile([1.0, 0.0], (5, 1))
    means = np.array(SPREAD.means)
    turned = with_effects(law, means, SPREAD, along_x)
    ratio = turned.fine_scale / law.fine_scale
    assert ratio[:, 0] == pytest.approx(np.exp(0.5))
    assert ratio[:, 1] == pytest.approx(1.0)
    # Half of an effect of 0.4 is carried along: 0.5 + 0.5 · 0.4.
    fine = with_effects(law, means + np.array([0.4, 0, 0, 0]), SPREAD, along_x)
    assert fine.fine_scale[:, 0] / law.fine_scale[:, 0] == pytest.approx(np.exp(0.7))
    assert fine.fine_scale[:, 1] / law.fine_scale[:, 1] == pytest.approx(np.exp(0.4))


def test_few_matches_stay_near_the_prior() -> None:
    matches, residual = matcher(1.0, 0.0).match(np.eye(3), count=2, seed=0)
    few = pair_law_by_residuals(matches, ADAPTING, residual).effects
    assert abs(few[0]) < 0.4
    none = matches.take(slice(0))
    assert pair_law_by_residuals(none, ADAPTING, np.zeros((0, 2))).effects == (
        SPREAD.means
    )


def test_a_location_stays_with_the_law() -> None:
    located = replace(ADAPTING, location=(0.1, -0.05))
    H = random_homography(np.random.default_rng(4))
    matches, _ = SyntheticMatcher(located).match(H, count=1500, seed=3)
    unbiased, _ = semisure.without_bias(matches, located)
    found = pair_law_by_residuals(matches, located, plane.residual(H, unbiased))
    assert np.allclose(found.law.location, [0.8, -0.4])
    assert found.effects[0] == pytest.approx(0.0, abs=0.15)


def test_a_calibration_that_knows_no_pairs_is_refused() -> None:
    matches, residual = SyntheticMatcher().match(np.eye(3), count=20)
    with pytest.raises(InputError, match="does not say how pairs differ"):
        pair_law_by_residuals(matches, EXAMPLE_CALIBRATION, residual)


def test_files_keep_how_pairs_differ(tmp_path: Path) -> None:
    file = tmp_path / "theta.json"
    semisure.save_calibration(ADAPTING, file)
    assert semisure.load_calibration(file).pairs == SPREAD
    document = json.loads(file.read_text())
    del document["pairs"]  # as older files
    file.write_text(json.dumps(document))
    assert semisure.load_calibration(file).pairs is None
    document["pairs"] = {"fine": [0.0, -1.0]}
    file.write_text(json.dumps(document))
    with pytest.raises(FileError, match="damaged"):
        semisure.load_calibration(file)


def test_a_spread_needs_positive_deviations() -> None:
    with pytest.raises(InputError, match="gate must be a mean and a positive"):
        replace(SPREAD, gate=(0.0, 0.0))


def planar(effect: float, seed: int) -> ScenePair:
    H = random_homography(np.random.default_rng(seed))
    matches, residual = matcher(effect, 0.0).match(H, count=600, seed=seed)
    return ScenePair(matches=matches, residual=residual)


def posed(seed: int) -> ScenePair:
    """A pair whose errors along its lines, level here, are 1.8 times larger."""
    sideways = epipolar.checked_pose(np.column_stack([np.eye(3), [1.0, 0, 0]]))
    F = fundamental.of_rank_2(epipolar.fundamental(sideways, K, K))
    law = EXAMPLE_CALIBRATION
    wide: Calibration = replace(
        law, fine_var_gain=(1.8**2 * law.fine_var_gain[0], law.fine_var_gain[1])
    )
    views, _ = SyntheticMatcher(wide).match_views(sideways, K, count=900, seed=seed)
    exact, _ = _exact(sideways, seed)
    return ScenePair(matches=views, residual=views.target - exact.target, F_01=F)


def _exact(pose: np.ndarray, seed: int) -> tuple[Matches, PerAxis]:
    """The same views without errors: a law of vanishing scales draws the same cells."""
    nothing = replace(
        EXAMPLE_CALIBRATION,
        fine_var_gain=(1e-16, 1e-16),
        coarse_var_gain=(1e-16, 1e-16),
    )
    return SyntheticMatcher(nothing).match_views(pose, K, count=900, seed=seed)


def test_scenes_give_the_spread_between_pairs_and_what_lines_hide() -> None:
    effects = {"flat": 0.0, "sharp": -0.4, "soft": 0.4}
    scenes = {
        name: [planar(effect, seed) for seed in range(4)]
        for name, effect in effects.items()
    }
    scenes["depth"] = [posed(seed) for seed in range(4)]
    calibration, report = fit_scenes(scenes, matcher="synthetic")
    spread = calibration.pairs
    assert report.converged
    assert spread is not None
    assert 0.2 < spread.fine[1] < 0.5  # planted: −0.4, 0, 0.4, and the posed ones
    assert np.exp(spread.along_fine) == pytest.approx(1.8, rel=0.3)


def test_scenes_without_known_errors_are_refused() -> None:
    pair = planar(0.0, 0)
    unknown = replace(pair, residual=np.full_like(pair.residual, np.nan))
    with pytest.raises(InputError, match="needs a pair with at least 30 matches"):
        fit_scenes({"nothing": [unknown]})


@pytest.mark.parametrize("kind", ["homography", "fundamental", "essential"])
def test_a_result_speaks_by_the_adapted_law(kind: Model) -> None:
    """Fine scales planted at e^0.6 times the law's are told in the expected errors."""
    if kind == "homography":
        H = random_homography(np.random.default_rng(4))
        matches, _ = matcher(0.6, 0.0).match(H, count=3000, seed=1)
    else:
        matches, _ = matcher(0.6, 0.0).match_views(P_01, K, count=3000, seed=1)
    # No direction is set apart in synthetic views.
    plain = replace(SPREAD, along_fine=0.0, along_gate=0.0, carry=1.0)
    adapting = replace(EXAMPLE_CALIBRATION, pairs=plain)
    result = refit_matches(matches, adapting, model=kind, K0=K, K1=K)
    assert result.kind == kind
    fixed = semisure.error_law(matches, EXAMPLE_CALIBRATION).fine_scale
    ratio = np.median(result.law.fine_scale / fixed)
    assert ratio == pytest.approx(np.exp(0.6), rel=0.2)
    faithful = refit_matches(matches, EXAMPLE_CALIBRATION, model=kind, K0=K, K1=K)
    assert np.array_equal(faithful.law.fine_scale, fixed)


@pytest.mark.parametrize("name", ["daisy", "xfeat-star"])
def test_shipped_laws_know_scenes_and_say_where_their_numbers_are_from(
    name: str,
) -> None:
    calibration = semisure.load_calibration(name)
    assert calibration.pairs is not None
    assert calibration.pairs.along_fine > 0
    assert "rendered-table" in calibration.provenance["scenes"]
    assert calibration.provenance["numbers"]["method"] == "random views of photos"


def test_before_a_model_is_found_the_law_is_the_usual_one() -> None:
    """By hand: fine scales e^0.5 times the law's, and a gate opened by 1."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=20)
    law = semisure.error_law(matches, EXAMPLE_CALIBRATION)
    spread = replace(SPREAD, usual=(0.5, 1.0, 0.0, -50.0))
    usual = predictive_law(matches, replace(EXAMPLE_CALIBRATION, pairs=spread))
    assert np.allclose(usual.fine_scale, np.exp(0.5) * law.fine_scale)
    assert np.allclose(usual.tail_logit, law.tail_logit + 1.0)
    plain = predictive_law(matches, EXAMPLE_CALIBRATION)
    assert np.array_equal(plain.fine_scale, law.fine_scale)


def test_the_models_own_error_is_added_to_the_scales() -> None:
    """By hand: √(s² + 0.32 / 2) is 0.5 for s = 0.3, in units of px."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=20)
    nothing = np.zeros((20, 2))
    alone = pair_law_by_residuals(matches, ADAPTING, nothing).law
    variance = np.full((20, 2), 0.32)
    both = pair_law_by_residuals(matches, ADAPTING, nothing, variance).law
    assert np.allclose(both.fine_scale**2, alone.fine_scale**2 + 0.16)
    assert np.hypot(0.3, np.sqrt(0.16)) == pytest.approx(0.5)

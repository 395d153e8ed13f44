"""A law that adapts to its pair: effects planted and found, one match by hand."""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

import semisure
from plain import coverage
from semisure.calibrate.scenes import (
    AlongErrors,
    ScenePair,
    fit_along,
    fit_scenes,
)
from semisure.errors import FileError, InputError
from semisure.geometry import epipolar, fundamental
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.law import mixture
from semisure.law.mixture import ErrorLaw
from semisure.law.pair_law import (
    law_on_lines,
    on_lines,
    pair_law_by_lines,
    pair_law_by_residuals,
    predictive_law,
)
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import Model
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import AlongLines, Calibration, Matches, PairSpread, PerAxis

PLAIN = AlongLines()  # nothing learnt
SPREAD = PairSpread(
    fine=(0.0, 0.4),
    gate=(0.0, 1.0),
    coarse=(0.0, 0.5),
    background=(-5.0, 1.0),
    along=AlongLines(fine=0.5, coarse=0.2, gate=0.6, departure=0.3),
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


@pytest.mark.parametrize(("fine", "gate"), [(0.0, 0.0), (0.6, 0.0), (-0.5, 1.2)])
def test_planted_effects_are_found_by_residuals(fine: float, gate: float) -> None:
    H = random_homography(np.random.default_rng(4))
    matches, residual = matcher(fine, gate).match(H, count=4000, seed=1)
    found = pair_law_by_residuals(matches, ADAPTING, residual)
    assert found.effects[0] == pytest.approx(fine, abs=0.15)
    observed = (np.abs(residual) > 8.0).mean()
    predicted = mixture.prob_beyond(found.blind, 8.0).mean()
    assert predicted == pytest.approx(observed, rel=0.25)


@pytest.mark.parametrize(("fine", "gate"), [(0.0, 0.0), (0.6, 0.0), (-0.5, 1.2)])
def test_planted_effects_are_found_by_lines(fine: float, gate: float) -> None:
    views, _ = matcher(fine, gate).match_views(P_01, K, count=4000, seed=2)
    lines = epipolar.lines_of(F_01[None], views)
    found = pair_law_by_lines(views, ADAPTING, lines)
    assert found.effects[0] == pytest.approx(fine, abs=0.2)


def test_a_law_of_its_pair_covers_where_the_matchers_does_not() -> None:
    H = random_homography(np.random.default_rng(4))
    matches, residual = matcher(0.7, 0.5).match(H, count=4000, seed=3)
    fixed = semisure.error_law(matches, ADAPTING)
    blind = pair_law_by_residuals(matches, ADAPTING, residual).blind
    before, after = (
        coverage(mixture.cdf(law, residual), [0.5, 0.9]) for law in (fixed, blind)
    )
    assert before[0] < 0.4
    assert after == pytest.approx([0.5, 0.9], abs=0.04)


# -- one match by hand


def one(logit: float = -2.0) -> ErrorLaw:
    """Scales of 1 and 8 px on both axes."""
    unit = np.ones((1, 2))
    return ErrorLaw(unit, 8.0 * unit, logit * unit, 0.0 * unit)


def level(distance: float) -> epipolar.Lines:
    """A level line: x is along it, y across."""
    nothing = np.zeros((1, 5))
    return epipolar.Lines(np.array([distance]), np.array([[0.0, 1.0]]), nothing)


def told(
    distance: float = 0.0,
    variance: float = 0.0,
    away: float = 0.0,
    along: AlongLines = PLAIN,
) -> ErrorLaw:
    seen = np.array([variance]), np.array([away])
    return law_on_lines(one(), level(distance), *seen, along)


EITHER = np.log(2 * np.exp(-2.0) + np.exp(-4.0))  # odds of 1 − (1 − α)² at logit −2


def test_the_distance_and_the_neighbours_tell_a_failure() -> None:
    """d = 4, v = 6, a = √15: scales across are √(1 + 3) = 2 and √67, and h is 4."""
    along = AlongLines(fine=0.1, coarse=0.2, gate=0.3, departure=0.5)
    law, wide = told(4.0, 6.0, np.sqrt(15.0), along), np.sqrt(67.0)
    likelihood = np.log(np.exp(-4 / wide) / wide) - np.log(np.exp(-4 / 2) / 2)
    expected = EITHER + likelihood + 0.3 + 0.5 * np.log(16.0)
    assert law.tail_logit == pytest.approx(np.full((1, 2), expected))
    # Along, e^0.1 √(1 · 4) and e^0.2 √(8 · 4); across, the line's own √(6 / 2).
    assert law.fine_scale[0] == pytest.approx([np.exp(0.1) * 2, np.sqrt(3.0)])
    assert law.coarse_scale[0, 0] == pytest.approx(np.exp(0.2) * np.sqrt(32.0))
    assert law.coarse_scale[0, 1] == pytest.approx(np.sqrt(3.0))
    assert law.location[0].tolist() == [0.0, 4.0]


def test_the_numbers_of_errors_along_lines_are_recovered() -> None:
    """From failures and errors drawn by them."""
    rng, count = np.random.default_rng(0), 40_000
    fine = rng.uniform(0.3, 1.0, (count, 2))
    law = ErrorLaw(fine, 12.0 * fine, rng.normal(-2, 1, (count, 2)), 0.0 * fine)
    angle = rng.uniform(0, np.pi, count)
    normal = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    seen = rng.laplace(0.0, 0.5, count), normal, rng.exponential(2.0, count)
    distance, normal, away = seen
    true = AlongLines(fine=0.3, coarse=0.6, gate=0.8, departure=0.4)
    logit, near, wide = on_lines(law, distance, normal, np.zeros(1), away, true)
    failed = rng.random(count) < mixture.expit(logit)
    error = rng.laplace(0.0, np.where(failed, wide, near))
    found = fit_along([[AlongErrors(law, *seen, error)]])
    assert astuple(found) == pytest.approx(astuple(true), abs=0.1)


def test_of_a_plane_the_error_is_the_residual() -> None:
    matches, residual = SyntheticMatcher().match(np.eye(3), count=500, seed=2)
    variance = np.full((500, 2), 0.08)
    found = pair_law_by_residuals(matches, ADAPTING, residual, variance)
    assert np.allclose(found.law.location, residual)
    assert np.allclose(found.law.fine_scale, 0.2)  # √(0.08 / 2) px
    exact = pair_law_by_residuals(matches, ADAPTING, residual).law.fine_scale
    assert np.allclose(exact, 0.08 / np.sqrt(2))  # 1e-4 of the diagonal, 800 px
    expected = mixture.expected_abs_error(found.law)
    large = np.abs(residual).min(axis=1) > 3.0
    observed = np.abs(residual).mean(axis=1)
    assert expected[large] == pytest.approx(observed[large], rel=0.02)


def test_few_matches_stay_near_the_prior() -> None:
    matches, residual = matcher(1.0, 0.0).match(np.eye(3), count=2, seed=0)
    few = pair_law_by_residuals(matches, ADAPTING, residual).effects
    assert abs(few[0]) < 0.4
    none = matches.take(slice(0))
    effects = pair_law_by_residuals(none, ADAPTING, np.zeros((0, 2))).effects
    assert effects == pytest.approx(SPREAD.means)


def test_a_location_stays_with_the_law() -> None:
    located = replace(ADAPTING, location=(0.1, -0.05))
    H = random_homography(np.random.default_rng(4))
    matches, _ = SyntheticMatcher(located).match(H, count=1500, seed=3)
    unbiased, _ = semisure.without_bias(matches, located)
    found = pair_law_by_residuals(matches, located, plane.residual(H, unbiased))
    assert np.allclose(found.blind.location, [0.8, -0.4])
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
    other = posed(9)
    lines = epipolar.lines_of(other.F_01[None], other.matches)
    law = pair_law_by_lines(other.matches, calibration, lines).law
    along = mixture.cdf(law, other.residual)[:, 0]
    assert coverage(along, [0.5, 0.9]) == pytest.approx([0.5, 0.9], abs=0.12)


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
    result = refit_matches(matches, ADAPTING, model=kind, K0=K, K1=K)
    assert result.kind == kind
    fixed = semisure.error_law(matches, EXAMPLE_CALIBRATION).fine_scale
    ratio = np.median(result.blind_law.fine_scale / fixed)
    assert ratio == pytest.approx(np.exp(0.6), rel=0.2)
    assert np.array_equal(result.failure, result.pair_law.failure)
    faithful = refit_matches(matches, EXAMPLE_CALIBRATION, model=kind, K0=K, K1=K)
    assert np.array_equal(faithful.law.fine_scale, fixed)
    assert faithful.blind_law is not None


@pytest.mark.parametrize("name", ["daisy", "xfeat-star"])
def test_shipped_laws_know_scenes_and_say_where_their_numbers_are_from(
    name: str,
) -> None:
    calibration = semisure.load_calibration(name)
    assert calibration.pairs is not None
    assert calibration.pairs.along.departure > 0
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

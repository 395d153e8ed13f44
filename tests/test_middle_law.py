"""A law with a third component: its density, its place in files, planted and found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import semisure
from semisure import mixture
from semisure.error_laws import error_law
from semisure.mixture import ErrorLaw
from semisure.pipeline import refit_matches
from semisure.refit.error_quantiles import abs_quantile
from semisure.refit.middle_law import MiddleLaw
from semisure.refit.neighbours import surface
from semisure.refit.pair_law import (
    pair_law_by_residuals,
    predictive_law,
    with_effects,
)
from semisure.selfcal.reported import fit_reported
from semisure.selfcal.scenes import WIDE, ScenePair
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import Calibration, Matches, PairSpread

MIDDLE = (1.5, 0.6, -0.2, 0.5)
REPORTED = PairSpread(
    fine=(0.0, 0.2),
    gate=(0.0, 0.4),
    coarse=(0.0, 0.2),
    background=(-5.0, 0.5),
    middle=MIDDLE,
    departure=(0.1, 0.8),  # type: ignore[arg-type]
)
WITH_MIDDLE = replace(EXAMPLE_CALIBRATION, pairs=replace(WIDE, reported=REPORTED))


def by_hand(location: float = 0.0) -> MiddleLaw:
    """Scales 1, 3 and 9 px; chances 0.8 · ½, 0.8 · ½ and 0.2."""
    one = np.ones((1, 2))
    return MiddleLaw(
        one,
        9 * one,
        np.log(0.25) * one,
        location * one,
        middle_scale=3 * one,
        middle_logit=0 * one,
    )


def test_it_is_a_density() -> None:
    law = by_hand().take(np.zeros(240_001, dtype=int))
    x = np.linspace(-120, 120, len(law))
    density = np.exp(mixture.log_density(law, np.stack([x, x], axis=1)))[:, 0]
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=1e-5)
    assert sum(chance[0, 0] for chance, _ in law.parts()) == pytest.approx(1.0)
    logs = [np.exp(chance[0, 0]) for chance, _ in law.log_parts()]
    assert logs == pytest.approx([0.4, 0.4, 0.2])


def test_what_follows_from_it_by_hand() -> None:
    """Each is the mean over the three components of the paper's own formula."""
    law, none = by_hand(), np.zeros((1, 2))
    assert np.allclose(mixture.expected_abs_residual(law), 0.4 + 0.4 * 3 + 0.2 * 9)
    beyond = 0.4 * np.exp(-8) + 0.4 * np.exp(-8 / 3) + 0.2 * np.exp(-8 / 9)
    assert np.allclose(mixture.prob_beyond(law, 8.0), beyond)
    assert np.allclose(mixture.cdf(law, none + 8.0), 1.0 - beyond / 2)
    # At r = 0 the densities are 0.4/2, 0.4/6 and 0.2/18 per px.
    right = (0.4 + 0.4 / 3) / (0.4 + 0.4 / 3 + 0.2 / 9)
    assert np.allclose(mixture.coarse_success(law, none), right)
    assert np.allclose(mixture.coarse_failure(law), 1 - 0.8**2)


def test_quantiles_are_the_inverse() -> None:
    law = by_hand(location=0.7)
    for p in (0.05, 0.5, 0.9):
        assert np.allclose(mixture.cdf(law, mixture.quantile(law, p)), p)
    x = abs_quantile(law, 0.9)
    assert np.allclose(mixture.cdf(law, x) - mixture.cdf(law, -x), 0.9)


def test_samples_have_its_shares_beyond() -> None:
    law = by_hand().take(np.zeros(100_000, dtype=int))
    drawn = np.abs(mixture.sample(law, np.random.default_rng(0)))
    for px in (1.0, 4.0, 16.0):
        expected = mixture.prob_beyond(by_hand(), px)[0, 0]
        assert (drawn > px).mean() == pytest.approx(expected, abs=0.005)


def test_without_a_middle_share_it_is_the_law_of_two() -> None:
    """logit β = −40: what is left is the paper's law."""
    three = replace(by_hand(), middle_logit=np.full((1, 2), -40.0))
    two = ErrorLaw(
        three.fine_scale, three.coarse_scale, three.tail_logit, three.location
    )
    r = np.array([[0.3, 12.0]])
    for function in (mixture.log_density, mixture.cdf, mixture.coarse_success):
        assert np.allclose(function(three, r), function(two, r))
    assert np.allclose(mixture.crps(three, r), mixture.crps(two, r))


# -- files and faithfulness


def test_old_files_load_and_new_ones_come_back(tmp_path: Path) -> None:
    old = semisure.load_calibration("xfeat-star").pairs
    assert old is not None
    assert old.reported is old.middle is old.departure is None
    law = semisure.load_calibration("daisy")
    assert law.pairs is not None
    assert law.pairs.middle is None  # it is only for what is reported
    assert law.pairs.reported is not None
    assert law.pairs.reported.middle is not None
    semisure.save_calibration(law, tmp_path / "law.json")
    assert semisure.load_calibration(tmp_path / "law.json").pairs == law.pairs


def test_refits_and_what_is_said_before_them_are_the_same() -> None:
    H = random_homography(np.random.default_rng(1))
    matches, _ = SyntheticMatcher().match(H, count=400, seed=1)
    plain = replace(WITH_MIDDLE, pairs=WIDE)
    new, old = (refit_matches(matches, law) for law in (WITH_MIDDLE, plain))
    assert new.model is not None
    assert np.array_equal(new.model, old.model)
    assert np.array_equal(new.refit.weight, old.refit.weight)
    before = predictive_law(matches, WITH_MIDDLE)
    assert type(before) is ErrorLaw
    assert np.array_equal(before.fine_scale, predictive_law(matches, plain).fine_scale)
    assert isinstance(new.law, MiddleLaw)
    assert type(old.law) is ErrorLaw


def test_the_model_takes_from_every_scale() -> None:
    matches, residual = SyntheticMatcher().match(np.eye(3), count=200)
    alone = pair_law_by_residuals(matches, WITH_MIDDLE, residual).law
    both = pair_law_by_residuals(
        matches, WITH_MIDDLE, residual, np.full((200, 2), 8.0)
    ).law
    assert isinstance(alone, MiddleLaw)
    assert isinstance(both, MiddleLaw)
    for name in ("fine_scale", "middle_scale", "coarse_scale"):
        assert np.allclose(getattr(both, name) ** 2, getattr(alone, name) ** 2 + 4.0)


# -- neighbours


def grid() -> Matches:
    """Matches on a grid of 20 × 20 cells."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=400)
    y, x = np.divmod(np.arange(400), 20)
    points = 8.0 * np.stack([x, y], axis=1)
    return replace(
        matches, source=points, target=points, side=np.ones(400, dtype=np.int64)
    )


EVEN = np.ones(400)


def test_a_slanted_surface_has_no_departures() -> None:
    y, x = np.divmod(np.arange(400), 20)
    assert surface(grid(), 0.3 * x - 0.2 * y, EVEN).away.max() < 0.02


def test_a_match_that_moves_alone_departs_by_so_much() -> None:
    """By hand: of nine cells, eight neighbours miss by 5 / 8 at most, and slopes."""
    shift = np.zeros(400)
    shift[210] = 5.0
    away = surface(grid(), shift, EVEN).away
    assert away[210] == pytest.approx(5.0, abs=1e-6)
    assert np.delete(away, 210).max() < 2.0
    light = np.where(np.arange(400) == 210, 1e-6, 1.0)  # such as one off its line
    away = surface(grid(), shift, light).away
    assert away[210] == pytest.approx(5.0, abs=1e-6)
    assert np.delete(away, 210).max() < 1e-4


def test_a_depth_edge_is_a_departure_beside_it_only() -> None:
    _, x = np.divmod(np.arange(400), 20)
    away = surface(grid(), np.where(x < 10, 0.0, 12.0), EVEN).away
    assert away[(x == 9) | (x == 10)].min() > 1.0
    assert away[(x < 9) | (x > 10)].max() < 1e-6


def test_a_match_has_no_say_in_its_own_departure() -> None:
    """Whatever its weight, but for a ridge of half a percent on slopes."""
    rng = np.random.default_rng(2)
    value, weight = rng.normal(size=400), rng.uniform(0.2, 1.0, 400)
    before = surface(grid(), value, weight).away[210]
    heavy = weight.copy()
    heavy[210] = 5.0
    after = surface(grid(), value, heavy).away[210]
    assert after == pytest.approx(before, rel=0.01)


def test_lone_matches_depart_as_the_middle_one_does() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=3)
    assert not np.any(surface(matches, np.arange(3.0), np.ones(3)))
    far = grid().source.copy()
    far[0] = [-400.0, -400.0]
    value = np.random.default_rng(0).normal(size=400)
    away = surface(replace(grid(), source=far), value, EVEN).away
    assert away[0] == pytest.approx(np.median(away[1:]))


def test_departures_move_the_chances_of_failing() -> None:
    """By hand: √(e² − 1) fine scales make a logarithm of 1; so much on the logits."""
    spread = replace(REPORTED, middle=None, departure=(0.0, 0.0, 0.5, -1.0, 0.25))
    matches, _ = SyntheticMatcher().match(np.eye(3), count=4)
    law = error_law(matches, EXAMPLE_CALIBRATION)
    even = np.repeat(law.fine_scale.mean(axis=1, keepdims=True), 2, axis=1)
    law = replace(law, fine_scale=even)
    along_x, means = np.tile([1.0, 0.0], (4, 1)), np.array(REPORTED.means)
    away = np.sqrt(np.exp(2.0) - 1.0) * law.fine_scale[:, 0]
    before = with_effects(law, means, spread, along_x).tail_logit
    after = with_effects(law, means, spread, along_x, away=away).tail_logit
    assert (after - before)[:, 0] == pytest.approx(0.5)  # along the line
    assert (after - before)[:, 1] == pytest.approx(-0.75)  # −1 + 0.25 across it


def test_older_files_have_two_numbers_of_departure() -> None:
    assert REPORTED.departure == (0.1, 0.8, 0.0, 0.0, 0.0)


# -- the fit


def planted(seed: int) -> ScenePair:
    """A pair whose residuals are drawn from the law with the middle component."""
    rng = np.random.default_rng(seed)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=1200, seed=seed)
    law = error_law(matches, EXAMPLE_CALIBRATION)
    effects = np.array(REPORTED.means) + rng.normal(0, REPORTED.deviations)
    residual = mixture.sample(with_effects(law, effects, REPORTED), rng)
    return ScenePair(matches=matches, residual=residual)


def mean_nll(pairs: list[ScenePair], calibration: Calibration) -> float:
    laws = [pair_law_by_residuals(p.matches, calibration, p.residual) for p in pairs]
    parts = [
        mixture.log_density(one.law, pair.residual).mean()
        for one, pair in zip(laws, pairs, strict=True)
    ]
    return -float(np.mean(parts))


@pytest.mark.slow
def test_a_planted_middle_component_is_found() -> None:
    """The fitted law is as likely as the planted one, on pairs it has not seen."""
    scenes = {f"{k}": [planted(2 * k), planted(2 * k + 1)] for k in range(4)}
    found = fit_reported(scenes, EXAMPLE_CALIBRATION)
    assert found.middle is not None
    assert found.middle[0] == pytest.approx(MIDDLE[0], abs=0.4)
    share = [m[2] + m[3] * -2.0 for m in (found.middle, MIDDLE)]  # logit β at α = 0.12
    assert share[0] == pytest.approx(share[1], abs=1.0)  # deciles have a say
    others = [planted(100 + k) for k in range(6)]
    fitted = replace(EXAMPLE_CALIBRATION, pairs=replace(WIDE, reported=found))
    two = replace(EXAMPLE_CALIBRATION, pairs=WIDE)
    best = mean_nll(others, WITH_MIDDLE)
    assert mean_nll(others, fitted) == pytest.approx(best, abs=0.01)
    assert mean_nll(others, two) > best + 0.02

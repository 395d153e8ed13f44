"""What a match's own line and its neighbours say of it, by hand and planted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import semisure
from semisure import mixture
from semisure.errors import InputError
from semisure.geometry import epipolar, fundamental
from semisure.geometry import pose as se3
from semisure.mixture import ErrorLaw
from semisure.refit.astray import OnLines, law_on_lines
from semisure.refit.neighbours import Surface, surface
from semisure.refit.pair_law import pair_law_by_lines
from semisure.selfcal.reported import fit_reported
from semisure.selfcal.scenes import WIDE, ScenePair
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Matches, PairSpread

K = np.array([[520.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
NO_MIDDLE = (0.0, 0.5, -40.0, 0.0)
# Effects of nothing: no factor, no shift, and hardly any background.
PLAIN = PairSpread(
    fine=(0.0, 0.3),
    gate=(0.0, 1.0),
    coarse=(0.0, 0.3),
    background=(-50.0, 1.0),
    middle=NO_MIDDLE,
    departure=(0.0, 1.0),  # type: ignore[arg-type]
    astray=(-2.0, 0.0, 1.0, 0.5, -0.25, np.log(0.5), 2.0),
)
NOTHING = np.array([0.0, 0.0, 0.0, -50.0])


def law_of(count: int, logit: float = -2.0) -> ErrorLaw:
    """Scales of 1 and 8 px on both axes."""
    one = np.ones((count, 2))
    return ErrorLaw(one, 8 * one, logit * one, 0 * one)


def seen(count: int, **changes: float) -> OnLines:
    """Level lines, so that x is along them and y across; windows of 8 px."""
    values = {
        "distance": 0.0,
        "variance": 0.0,
        "window": 8.0,
        "away": 0.0,
        "rough": 0.0,
        "share": 0.0,
        "reach": 0.0,
        **changes,
    }
    arrays = {name: np.full(count, value) for name, value in values.items()}
    return OnLines(normal2=np.tile([0.0, 1.0], (count, 1)), **arrays)


@pytest.mark.parametrize("distance", [0.0, 1.0, 8.0])
def test_the_distance_from_its_line_tells_a_failure_by_bayes(distance: float) -> None:
    """By hand: log of e^{−d/8}/8 over e^{−d}, d 7/8 − log 8, on the logit of −2."""
    law = law_on_lines(law_of(1), NOTHING, PLAIN, seen(1, distance=distance))
    expected = -2.0 + 7 / 8 * distance - np.log(8.0)
    assert law.tail_logit == pytest.approx(np.full((1, 2), expected), abs=1e-6)


def test_an_uncertain_line_tells_less() -> None:
    """A line off by √6 px: scales across are √(1 + 3) = 2 and √(64 + 3)."""
    law = law_on_lines(law_of(1), NOTHING, PLAIN, seen(1, distance=4.0, variance=6.0))
    wide = np.sqrt(67.0)
    expected = -2.0 + 4.0 / 2.0 - 4.0 / wide + np.log(2.0) - np.log(wide)
    assert law.tail_logit[0] == pytest.approx(expected, abs=1e-6)


def test_what_went_astray_has_its_own_chance_and_scale_along_the_line() -> None:
    """Scale 8 · ½ e^{2 · 0.5} px; logit −2 + 1 · 0.7 + 0.5 · −1 − 0.25 · 0.5."""
    view = seen(1, rough=0.7, share=-1.0, reach=0.5)
    law = law_on_lines(law_of(1), NOTHING, PLAIN, view)
    assert law.middle_scale[0, 0] == pytest.approx(4.0 * np.e)
    assert law.middle_logit[0, 0] == pytest.approx(-2.0 + 0.7 - 0.5 - 0.125)
    assert law.middle_logit[0, 1] < -25.0  # none across


def test_fine_scales_along_follow_the_departure() -> None:
    """√(1 + 3²) = √10 fine scales, and across the line 1."""
    law = law_on_lines(law_of(1), NOTHING, PLAIN, seen(1, away=3.0))
    assert law.fine_scale[0] == pytest.approx([np.sqrt(10.0), 1.0])


def views(count: int = 3000, seed: int = 1) -> tuple[Matches, epipolar.Lines]:
    pose = epipolar.checked_pose(
        se3.moved(np.eye(3, 4), [0.02, 0.1, 0.05, 1, 0.1, 0.3])
    )
    matches, _ = SyntheticMatcher().match_views(pose, K, count=count, seed=seed)
    F = fundamental.of_rank_2(epipolar.fundamental(pose, K, K))
    return matches, epipolar.lines_of(F[None], matches)


def test_a_pairs_share_and_reach_are_those_of_matches_on_their_lines() -> None:
    """Of three on lines one departs, by e limits; of one off its line nobody asks.

    Share: log((1 + 1) / (2 + 1)). Reach, with five usual ones of 0.6: (1 + 3) / 6.
    """
    matches, lines = views(4)
    lines = replace(lines, distance=np.array([0.0, 0.0, 0.0, 500.0]))
    law = semisure.error_law(matches, EXAMPLE_CALIBRATION)
    limit = 0.4 * matches.fine_window
    around = Surface(np.array([0.0, np.e, 0.5, 20.0]) * limit, np.ones(4))
    told = OnLines.of(matches, law, lines, around)
    assert told.share == pytest.approx(np.log(2 / 3))
    assert told.reach == pytest.approx(4 / 6)
    assert told.rough == pytest.approx(0.0)
    assert len(told.take(slice(0, 2)).distance) == 2


def test_roughness_is_what_neighbours_leave_of_their_own_map() -> None:
    """Parallax of ±1 px in turn, as on a chessboard, is no affine map: about 1 px."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=400)
    y, x = np.divmod(np.arange(400), 20)
    points = 8.0 * np.stack([x, y], axis=1)
    side = np.ones(400, dtype=np.int64)
    grid = replace(matches, source=points, target=points, side=side)
    slanted = surface(grid, 0.3 * x - 0.2 * y, np.ones(400))
    assert slanted.rough.max() < 0.02
    chessboard = surface(grid, (-1.0) ** (x + y), np.ones(400))
    assert np.median(chessboard.rough) == pytest.approx(1.0, abs=0.05)


def test_matches_off_their_lines_are_told_from_the_others() -> None:
    """A story: few of the failures are told by cues, nearly all by their lines.

    The points lie in a cloud, not on surfaces: neighbours have nothing to say.
    """
    matches, lines = views()
    deaf = replace(PLAIN, departure=(0.0,) * 5, astray=(-40.0, *(0.0,) * 6))
    spread = replace(deaf, background=(-5.0, 1.0))
    plain = replace(spread, astray=None)
    calibrations = [
        replace(EXAMPLE_CALIBRATION, pairs=replace(WIDE, reported=one))
        for one in (plain, spread)
    ]
    before, after = (
        mixture.expected_abs_error(pair_law_by_lines(matches, law, lines).law)
        for law in calibrations
    )
    far = np.abs(lines.distance) > 20.0
    assert far.sum() > 50
    assert np.median(after[far]) > 8.0
    assert np.median(after[~far]) < 1.5
    assert np.quantile(after[far], 0.1) > 2.0 * np.quantile(before[far], 0.1)


def test_nothing_is_nothing() -> None:
    matches, lines = views(4)
    none = matches.take(slice(0))
    no_lines = epipolar.Lines(
        *(getattr(lines, name)[:0] for name in ("distance", "normal", "jacobian")),
        lines.by_anchor[:0],
    )
    calibration = replace(EXAMPLE_CALIBRATION, pairs=replace(WIDE, reported=PLAIN))
    assert len(pair_law_by_lines(none, calibration, no_lines).law) == 0


def test_files_keep_it_and_it_needs_its_component(tmp_path: Path) -> None:
    law = replace(EXAMPLE_CALIBRATION, pairs=replace(WIDE, reported=PLAIN))
    semisure.save_calibration(law, tmp_path / "law.json")
    assert semisure.load_calibration(tmp_path / "law.json").pairs == law.pairs
    with pytest.raises(InputError, match="astray needs middle and departure"):
        replace(PLAIN, middle=None)


def test_the_shipped_law_of_daisy_listens_to_lines() -> None:
    pairs = semisure.load_calibration("daisy").pairs
    assert pairs is not None
    assert pairs.reported is not None
    assert pairs.reported.astray is not None
    assert pairs.reported.astray[2] > 0  # rough places are worse
    assert pairs.reported.astray[6] > 0  # where departures go far, failures do


def astray(seed: int) -> ScenePair:
    """Level lines; one match in eight has slid along its own by up to 60 px."""
    rng = np.random.default_rng(seed)
    sideways = epipolar.checked_pose(np.column_stack([np.eye(3), [1.0, 0, 0]]))
    F = fundamental.of_rank_2(epipolar.fundamental(sideways, K, K))
    exact = replace(EXAMPLE_CALIBRATION, fine_var_gain=(1e-16, 1e-16))
    exact = replace(exact, coarse_var_gain=(1e-16, 1e-16))
    truth, _ = SyntheticMatcher(exact).match_views(sideways, K, count=900, seed=seed)
    law = semisure.error_law(truth, EXAMPLE_CALIBRATION)
    residual = mixture.sample(law, rng)
    slid = rng.random(900) < 0.125
    residual[slid, 0] += rng.uniform(-60.0, 60.0, slid.sum())
    moved = replace(truth, target=truth.target + residual)
    return ScenePair(matches=moved, residual=residual, F_01=F)


@pytest.mark.slow
def test_what_slides_along_lines_is_learnt() -> None:
    """On pairs that the fit has not seen, intervals hold and the tail is foretold."""
    scenes = {f"{k}": [astray(2 * k), astray(2 * k + 1)] for k in range(3)}
    found = fit_reported(scenes, EXAMPLE_CALIBRATION)
    law = replace(EXAMPLE_CALIBRATION, pairs=replace(WIDE, reported=found))
    pit, predicted, observed = [], [], []
    for seed in range(50, 54):
        pair = astray(seed)
        assert pair.F_01 is not None
        lines = epipolar.lines_of(pair.F_01[None], pair.matches)
        told = pair_law_by_lines(pair.matches, law, lines).law
        pit.append(mixture.cdf(told, pair.residual)[:, 0])
        predicted.append(mixture.prob_beyond(told, 8.0)[:, 0].mean())
        observed.append((np.abs(pair.residual[:, 0]) > 8.0).mean())
    inside = [np.mean(np.abs(np.concatenate(pit) - 0.5) < p / 2) for p in (0.5, 0.9)]
    assert inside == pytest.approx([0.5, 0.9], abs=0.08)
    assert np.mean(predicted) == pytest.approx(np.mean(observed), rel=0.33)

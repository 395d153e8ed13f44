"""Laws from pairs without truth: planted laws, trust, and what cannot be trusted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from semisure.calibrate import found_pairs, without_truth
from semisure.calibrate.found_pairs import FoundPair, find_pair, half_of
from semisure.calibrate.held_out_lines import trial_across
from semisure.calibrate.scenes import WIDE, ScenePair, lines_of_pair
from semisure.calibrate.without_truth import (
    GENERIC,
    along_for,
    fit_without_truth,
    start_for,
)
from semisure.errors import InputError
from semisure.io.files import load_calibration
from semisure.law.mixture import ErrorLaw, expected_abs_error, quantile
from semisure.law.parameters import COARSE, FINE, INTERCEPT, pack
from semisure.refit.pair_law import pair_law_by_residuals, predictive_law
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import AlongLines, Calibration, Matches, PerAxis
from test_by_lines import SIDEWAYS, TRUTH, WRONG, K, views

# About what the shipped laws have.
ALONG = AlongLines(fine=0.1, coarse=1.0, gate=-0.3, departure=0.3)


def found(start: Calibration, count: int = 8, **options) -> list[FoundPair]:
    """Planted matches of views in all directions, with the geometry they show."""
    pairs = []
    for seed, P in enumerate(views(count)):
        matches, _ = SyntheticMatcher().match_views(P, K, seed=seed)
        pair = find_pair(matches, start, **options)
        assert isinstance(pair, FoundPair), pair
        pairs.append(pair)
    return pairs


@pytest.fixture(scope="module")
def pairs() -> list[FoundPair]:
    return found(WRONG)


# -- pairs that can be trusted, and those that cannot


def test_depth_a_turned_camera_and_intrinsics_are_told_apart() -> None:
    moved, _ = SyntheticMatcher().match_views(views(1)[0], K)
    assert find_pair(moved, EXAMPLE_CALIBRATION).kind == "fundamental"
    assert find_pair(moved, EXAMPLE_CALIBRATION, (K, K)).kind == "essential"
    turned, _ = SyntheticMatcher().match(random_homography(np.random.default_rng(0)))
    assert find_pair(turned, EXAMPLE_CALIBRATION).kind == "homography"


def scattered(share: float, seed: int = 0) -> Matches:
    """Matches of which this share leads anywhere."""
    matches, _ = SyntheticMatcher().match_views(views(1)[0], K, seed=seed)
    rng = np.random.default_rng(seed)
    lost = rng.random(len(matches)) < share
    anywhere = rng.uniform(0, [640, 480], (len(matches), 2))
    return replace(matches, target=np.where(lost[:, None], anywhere, matches.target))


def test_pairs_that_cannot_be_trusted_are_left_out_by_reason() -> None:
    still, _ = SyntheticMatcher().match(np.eye(3))
    reasons = Counter(
        find_pair(matches, EXAMPLE_CALIBRATION)
        for matches in (scattered(1.0), scattered(0.8), still, still.take(slice(9)))
    )
    assert reasons == {
        found_pairs.UNRELATED: 1,
        found_pairs.FEW_AGREE: 1,
        found_pairs.STILL: 1,
        found_pairs.TOO_FEW: 1,
    }


def test_halves_are_blocks_of_a_chessboard() -> None:
    """Of 800 px a sixteenth is 50 px: blocks (0, 0) and (1, 1) are of one colour."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=4)
    places = np.array([[10.0, 10], [60, 60], [60, 10], [49, 51]])
    assert half_of(replace(matches, source=places)).tolist() == [1, 1, 0, 0]


def test_neither_half_has_seen_the_matches_that_it_judges(pairs) -> None:
    """A match moved by 40 px changes its own distance, but no other of its half."""
    pair = pairs[0]
    moved = pair.matches.target.copy()
    moved[0] += 40.0
    other = replace(pair, matches=replace(pair.matches, target=moved))
    part = 0 if half_of(pair.matches)[0] else 1  # match 0 is the first of its half
    before, after = (p.halves(WRONG)[part][1] for p in (pair, other))
    changed = np.flatnonzero(before.distance != after.distance)
    assert changed.tolist() == [0]


# -- the law


def test_a_planted_law_is_found_without_truth(pairs: list[FoundPair]) -> None:
    """The start's fine scales are half of the truth, and its gate is blind."""
    law, report = fit_without_truth({"made up": pairs}, WRONG, ALONG)
    assert report.converged
    assert report.pairs == 8
    assert report.matches == 16_000
    off = np.abs(pack(law) - TRUTH)
    assert off[FINE].max() < 0.2  # 10 % of a scale
    assert off[COARSE].max() < 0.3
    assert off[INTERCEPT].max() < 0.4
    assert law.pairs is not None
    assert np.abs(law.pairs.means[:3]).max() < 0.3  # all pairs are alike
    matches, residuals = SyntheticMatcher().match(np.eye(3), seed=99)
    predicted = pair_law_by_residuals(matches, law, residuals).blind
    assert inside(predicted, residuals, 0.5) == pytest.approx(0.5, abs=0.05)
    assert inside(predicted, residuals, 0.9) == pytest.approx(0.9, abs=0.03)


def inside(law: ErrorLaw, residuals: PerAxis, level: float) -> float:
    limit = quantile(law, 0.5 + level / 2)
    return float((np.abs(residuals) <= limit).mean())


def test_errors_along_lines_are_what_other_scenes_taught() -> None:
    """Larger by e^{0.5}, they widen what is said before the lines are known."""
    matched = [SyntheticMatcher().match_views(SIDEWAYS, K, seed=s)[0] for s in range(4)]
    pairs = [find_pair(matches, EXAMPLE_CALIBRATION) for matches in matched]
    more = replace(ALONG, fine=ALONG.fine + 0.5)
    plain, _ = fit_without_truth({"": pairs}, EXAMPLE_CALIBRATION, ALONG)
    wider, _ = fit_without_truth({"": pairs}, EXAMPLE_CALIBRATION, more)
    assert plain.pairs.along == ALONG
    assert wider.pairs.along == more
    before, after = (
        expected_abs_error(predictive_law(matched[0], law)).mean()
        for law in (plain, wider)
    )
    assert after > before
    assert wider.pairs.fine == plain.pairs.fine
    assert np.array_equal(pack(wider), pack(plain))


def test_residuals_are_drawn_along_lines_only() -> None:
    """Across them they are the distances, give or take a camera's 0.08 px."""
    matches, _ = SyntheticMatcher().match_views(SIDEWAYS, K, seed=3)
    pair = find_pair(matches, EXAMPLE_CALIBRATION).scene_pair(EXAMPLE_CALIBRATION)
    plane = ScenePair(matches=matches, residual=np.ones_like(matches.target))
    law = replace(EXAMPLE_CALIBRATION, pairs=replace(WIDE, along=ALONG))
    drawn, same = without_truth._drawn({"": [pair, plane]}, law)[""]
    assert same is plane
    distance = lines_of_pair(pair, law)
    across = (drawn.residual * distance.normal).sum(axis=1) - distance.distance
    assert np.median(np.abs(across)) < 0.1
    along = drawn.residual[:, 0] * distance.normal[:, 1]
    assert np.median(np.abs(along)) > 0.2


def test_a_located_law_keeps_its_location() -> None:
    """No line can tell a shift that all matches share: the start's is kept."""
    located = replace(EXAMPLE_CALIBRATION, location=(0.1, -0.05))
    matched = [SyntheticMatcher(located).match_views(P, K)[0] for P in views(3)]
    pairs = [find_pair(matches, located) for matches in matched]
    law, _ = fit_without_truth({"": pairs}, located, ALONG)
    assert law.location == pytest.approx((0.1, -0.05), abs=0.02)
    assert np.abs(pack(law) - TRUTH)[FINE].max() < 0.3


def test_scenes_with_truth_and_views_take_part() -> None:
    matches, residuals = SyntheticMatcher().match(np.eye(3), seed=5)
    known = {"map": [ScenePair(matches=matches, residual=residuals)]}
    pairs = {"": found(WRONG, 2)}
    law, report = fit_without_truth(
        pairs, WRONG, ALONG, views=[(matches, residuals)], known=known
    )
    # 2 pairs of 2000 distances, and 2 × 2000 residuals on two axes
    assert report.matches == 12_000
    assert np.abs(pack(law) - TRUTH)[FINE].max() < 0.3


def test_without_a_pair_there_is_one_sentence() -> None:
    with pytest.raises(InputError, match="whose geometry can be trusted"):
        fit_without_truth({"": []}, WRONG, ALONG)


def test_a_true_law_is_believed_across_lines_and_a_narrow_one_is_not(pairs) -> None:
    true = replace(EXAMPLE_CALIBRATION, pairs=replace(WIDE, background=(-7.0, 0.5)))
    trust = trial_across(pairs, true)
    assert trust.inside_50 == pytest.approx(0.5, abs=0.03)
    assert trust.inside_90 == pytest.approx(0.9, abs=0.02)
    assert trust.expected_px == pytest.approx(trust.observed_px, rel=0.1)
    assert trust.pairs == 8
    assert trust.matches == 16_000
    assert "16,000 held-out matches" in trust.verdict()
    assert "errors along the lines cannot be judged" in trust.verdict()
    # Effects that are held where they are cannot mend scales that are half as wide.
    held = replace(WIDE, fine=(0.0, 0.01), coarse=(0.0, 0.01), gate=(0.0, 0.01))
    gain = tuple(0.25 * np.array(EXAMPLE_CALIBRATION.fine_var_gain))
    narrow = replace(EXAMPLE_CALIBRATION, fine_var_gain=gain, pairs=held)
    assert trial_across(pairs, narrow).inside_50 < 0.4
    assert trial_across(pairs, narrow).nll > trust.nll + 0.1


def test_a_plane_is_judged_on_both_axes() -> None:
    pairs = []
    for seed in range(3):
        H = random_homography(np.random.default_rng(seed))
        matches, _ = SyntheticMatcher().match(H, seed=seed, count=1000)
        pairs.append(find_pair(matches, EXAMPLE_CALIBRATION))
    assert {pair.kind for pair in pairs} == {"homography"}
    rows = pairs[0].halves(EXAMPLE_CALIBRATION)
    assert sum(len(part) for _, part in rows) == 2000
    law, _ = fit_without_truth({"": pairs}, WRONG, ALONG)
    # A plane's own relief, which the refit allows for, is taken off the fine scales.
    assert np.abs(pack(law) - TRUTH)[FINE].max() < 0.6
    assert trial_across(pairs, law).inside_90 == pytest.approx(0.9, abs=0.05)


# -- where a fit begins


def test_the_start_is_the_shipped_law_or_a_plain_one() -> None:
    assert start_for("daisy") == load_calibration("daisy")
    assert start_for("nobody") == replace(GENERIC, matcher="nobody")


def test_errors_along_lines_are_those_of_shipped_laws() -> None:
    own, names = along_for("daisy")
    assert own == load_calibration(names).pairs.along
    assert names == "daisy"
    other, names = along_for("nobody")
    laws = [load_calibration(name).pairs for name in names.split(", ")]
    assert all(pairs is not None for pairs in laws)
    assert other.fine == pytest.approx(np.mean([p.along.fine for p in laws]))

"""What a law that adapts to its pair costs, against ``core+`` in the same run.

    python benchmarks/pair_law_speed.py

Matches of a made-up scene in depth and of a plane, whose errors follow a law that
differs from pair to pair as the shipped one of daisy says. Timed are the adapted law
of all matches, by their lines and by their residuals, and its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import semisure
from clock import medians, wanted
from semisure.geometry.epipolar import checked_pose
from semisure.geometry.pose import moved
from semisure.law.pair_effects import effects_by_lines
from semisure.law.pair_law import (
    departure_by_lines,
    pair_law_by_lines,
    pair_law_by_residuals,
)
from semisure.pairs.estimation import refit_matches
from semisure.refit.corners import corner_variance
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography

SIZES = (1_000, 8_500, 100_000)
LARGEST_MS = 5.0  # at 8,500 matches
K = np.array([[520.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
P_01 = checked_pose(moved(np.eye(3, 4), np.array([0.02, 0.1, 0.05, 1, 0.1, 0.3])))


def compare() -> None:
    """Medians at every size, and the bar at 8,500."""
    print("\nlaws that adapt to their pair: medians of interleaved runs, ms")
    names = ("core+", "by lines", "by residuals", "effects", "neighbours")
    print(f"  {'matches':>9}" + "".join(f"{name:>13}" for name in names))
    for count in SIZES:
        repeats = max(3, min(30, 200_000 // count))
        rows = [medians(arms(count, seed), repeats, warm_up=1) for seed in range(3)]
        ms = {name: 1e3 * float(np.median([r[name] for r in rows])) for name in names}
        print(f"  {count:>9,}" + "".join(f"{ms[name]:13.2f}" for name in names))
        if count == 8_500:
            at_bar = ms
    for name in ("by lines", "by residuals"):
        ratio = at_bar[name] / at_bar["core+"]
        bar = wanted(at_bar[name], LARGEST_MS)
        print(
            f"  {name} at 8,500: {at_bar[name]:.2f} ms {bar}, {ratio:.2f} times core+"
        )


def arms(count: int, seed: int) -> dict[str, Callable[[], Any]]:
    """A pair in depth and a plane, ready for the clock."""
    pairs = semisure.load_calibration("daisy").pairs
    law = replace(EXAMPLE_CALIBRATION, pairs=pairs)
    views, _ = SyntheticMatcher().match_views(P_01, K, count=count, seed=seed)
    found = refit_matches(views, law, model="fundamental")
    view, about = found.lines_view(), found.refit.covariance
    assert view is not None
    lines = view.lines
    H = random_homography(np.random.default_rng(seed))
    flat, residual = SyntheticMatcher().match(H, count=count, seed=seed)
    refit = semisure.refit_homography(flat, law, H)
    assert refit.model is not None
    assert refit.covariance is not None
    variance = corner_variance(refit.covariance, refit.model, flat)
    raw = semisure.error_law(views, law)
    assert pairs is not None
    return {
        "core+": lambda: semisure.refit_homography(flat, law, H),
        "by lines": lambda: pair_law_by_lines(views, law, lines, about),
        "by residuals": lambda: pair_law_by_residuals(flat, law, residual, variance),
        "effects": lambda: effects_by_lines(raw, lines, pairs),
        "neighbours": lambda: departure_by_lines(views, raw, lines),
    }


if __name__ == "__main__":
    compare()

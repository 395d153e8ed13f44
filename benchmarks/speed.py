"""Speed against named rivals, as ratios measured in one run. `make bench` prints it.

1. Homographies, at 10³ to 10⁶ matches: ``core`` and ``core+`` against
   ``cv2.findHomography(RANSAC)`` on the same matches, the covariance and the verdict
   against ``core+``, and ``core`` against Algorithm 2 of the paper transcribed to NumPy
   (2n × 9 SVD).
2. Camera poses (pose_speed.py) against pycolmap's refinement, relative poses against
   PoseLib's RANSAC with its own refinement.
3. Laws that adapt to their pair (pair_law_speed.py) against ``core+``.
4. Fits (fit_speed.py) against SciPy's Powell with the paper's settings, on one thread
   and on two, and a fit of 10⁷ matches with its memory.
5. Start-up of the command line by stage (startup.py).

Rivals take turns and medians are compared, since the machine may be busy. Matchers have
their own benchmarks: embedded.py, overhead.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

import fit_speed
import pair_law_speed
import pose_speed
import semisure
import startup
from clock import medians, wanted
from semisure.geometry.homography import project
from semisure.geometry.significance import log_false_alarms
from semisure.geometry.support import support_of_homography
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import Calibration, FloatArray, Matches, Refit

SIZES = (1_000, 8_500, 100_000, 1_000_000)
PAIRS = 5  # RANSAC takes more or less time, as chance has it
# As the shipped laws have it: all terms of a covariance are then computed.
CALIBRATION = replace(EXAMPLE_CALIBRATION, model_error=None)


def main() -> None:
    parts: dict[str, Callable[[], None]] = {
        "homographies": compare_homographies,
        "poses": pose_speed.compare,
        "pair laws": pair_law_speed.compare,
        "fits": fit_speed.compare,
        "start-up": startup.compare,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=parts, nargs="*", default=list(parts))
    options = parser.parse_args()
    versions = f"numpy {np.__version__}, cv2 {cv2.__version__}"
    print(f"semisure {semisure.__version__}, {versions}")
    for name in options.only:
        parts[name]()


def compare_homographies() -> None:
    """Median over pairs of the medians of each arm, at every size."""
    print("\nhomographies: medians of interleaved runs, ms")
    names = ("RANSAC", "core", "core+", "covariance", "verdict")
    print(f"  {'matches':>9}" + "".join(f"{name:>12}" for name in names))
    at_size: dict[int, dict[str, float]] = {}
    for count in SIZES:
        repeats = max(2, min(30, 100_000 // count))
        pairs = PAIRS if count < 100_000 else 1
        rows = [medians(arms(count, seed), repeats, warm_up=1) for seed in range(pairs)]
        seconds = {name: float(np.median([r[name] for r in rows])) for name in names}
        at_size[count] = seconds
        print(f"  {count:>9,}" + "".join(f"{1e3 * seconds[n]:12.2f}" for n in names))
    for count, s in at_size.items():
        ratio = s["core+"] / s["RANSAC"]
        bar = wanted(ratio, 1.25 if count < 100_000 else 1.0)
        print(f"  core+ / RANSAC at {count:>9,}: {ratio:5.2f} {bar}")
    small, large = at_size[8_500]["core+"], at_size[1_000_000]["core+"]
    growth = large / small / (1_000_000 / 8_500)
    print(f"  core+ per match, 10⁶ / 8,500: {growth:.2f} {wanted(growth, 1.2)}")
    s = at_size[8_500]
    ratio = s["covariance"] / s["core+"]
    print(f"  covariance / core+ at 8,500: {ratio:.2f} {wanted(ratio, 0.5)}")
    ratio = (s["covariance"] + s["verdict"]) / s["core+"]
    print(f"  covariance and verdict / core+: {ratio:.2f} {wanted(ratio, 1.0)}")
    compare_algorithm_2()


def arms(count: int, seed: int) -> dict[str, Callable[[], Any]]:
    """One random pair, ready to be matched against the clock."""
    H = random_homography(np.random.default_rng(seed))
    matches, _ = SyntheticMatcher().match(H, count=count, seed=seed)
    initial = semisure.estimate_homography(matches, "ransac").model
    assert initial is not None
    refit = semisure.refit_homography(matches, CALIBRATION, initial)
    return {
        "RANSAC": lambda: cv2.findHomography(
            matches.source, matches.target, cv2.RANSAC, 3.0
        ),
        "core": lambda: semisure.refit_homography(
            matches, CALIBRATION, initial, method="core"
        ),
        "core+": lambda: semisure.refit_homography(matches, CALIBRATION, initial),
        "covariance": lambda: refit.uncertainty and refit.uncertainty(field=True),
        "verdict": lambda: verdict(refit, matches),
    }


def verdict(refit: Refit, matches: Matches) -> None:
    """What a verdict is made of: the test for chance and the signs of support."""
    assert refit.model is not None
    log_false_alarms(refit.model, matches)
    support_of_homography(refit.model, matches, refit.weight)


def compare_algorithm_2(count: int = 8_500) -> None:
    matches, _ = SyntheticMatcher().match(
        random_homography(np.random.default_rng(1)), count=count, seed=1
    )
    initial = semisure.estimate_homography(matches, "ransac").model
    assert initial is not None
    both: dict[str, Callable[[], Any]] = {
        "core": lambda: (
            semisure.refit_homography(
                matches, CALIBRATION, initial, method="core"
            ).model
        ),
        "paper": lambda: algorithm_2(matches, CALIBRATION, initial),
    }
    seconds = medians(both, 20)
    difference = float(np.abs(both["core"]() - both["paper"]()).max())
    ratio = seconds["paper"] / seconds["core"]
    print(
        f"  Algorithm 2 with its 2n × 9 SVD: {ratio:.1f} times core "
        f"{wanted(ratio, 10, at_least=True)}, H differs by {difference:.1e}"
    )


def algorithm_2(
    matches: Matches, calibration: Calibration, initial: FloatArray
) -> FloatArray:
    """Algorithm 2 line by line, with the weighted DLT by SVD of all rows."""
    fine = np.sqrt(calibration.fine_var_gain) * matches.fine_std
    coarse = np.sqrt(calibration.coarse_var_gain) * matches.coarse_std
    gate = (
        calibration.spread_slope * 100 * matches.coarse_std / matches.refined_size
        + calibration.doubt_slope * -np.log(matches.confidence)[:, None]
        + calibration.intercept
    )
    alpha = 1 / (1 + np.exp(-gate))
    residual = matches.target - project(initial, matches.source)
    lap_fine = np.exp(-np.abs(residual) / fine) / (2 * fine)
    lap_coarse = np.exp(-np.abs(residual) / coarse) / (2 * coarse)
    posterior = (1 - alpha) * lap_fine / ((1 - alpha) * lap_fine + alpha * lap_coarse)
    weight = posterior.prod(axis=1)
    (p, T0), (q, T1) = (
        _hartley(points, weight) for points in (matches.source, matches.target)
    )
    n = len(p)
    lifted = np.hstack([p, np.ones((n, 1))])
    A = np.zeros((2 * n, 9))
    A[0::2, 0:3], A[0::2, 6:9] = lifted, -q[:, :1] * lifted
    A[1::2, 3:6], A[1::2, 6:9] = lifted, -q[:, 1:] * lifted
    A *= np.repeat(np.sqrt(weight), 2)[:, None]
    _, _, vt = np.linalg.svd(A, full_matrices=False)
    H = np.linalg.inv(T1) @ vt[-1].reshape(3, 3) @ T0
    return np.asarray(H / H[2, 2])


def _hartley(points: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    center = np.average(points, axis=0, weights=weight)
    spread = np.average(((points - center) ** 2).sum(axis=1), weights=weight)
    scale = np.sqrt(2.0 / spread)
    T = np.array(
        [[scale, 0, -scale * center[0]], [0, scale, -scale * center[1]], [0, 0, 1]]
    )
    return (points - center) * scale, T


if __name__ == "__main__":
    main()

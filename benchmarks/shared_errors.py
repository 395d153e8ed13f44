"""How often 50 and 90 % regions hold where neighbouring matches share their errors.

Made-up pairs of 500 matches, drawn by the law of daisy: errors of their own; 15 % of
the matches anywhere; errors shared over 30 or 100 px, wholly or by a quarter; a lens.
The covariance knows none of these. No data are needed.

    python benchmarks/shared_errors.py --trials 100
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2

import semisure
from semisure.geometry import epipolar
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.geometry.fundamental import Seven
from semisure.geometry.rotations import rotation
from semisure.io.files import load_calibration
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.refit.covariance import radial
from semisure.refit.fundamental import refit_fundamental
from semisure.refit.poses import refit_pose
from semisure.refit.relative import refit_relative
from semisure.synthetic import EXAMPLE_CAMERA, SyntheticMatcher
from semisure.types import FloatArray, Matrix, Points, Vector

COUNT = 500
LAW = replace(load_calibration("daisy"), pairs=None, model_error=0.0)
H_01 = np.array([[1.1, 0.05, -20], [-0.03, 0.95, 12], [1e-4, -5e-5, 1]])
POSE = np.column_stack([np.eye(3), [0.1, -0.2, 0.3]])  # of a query
K = np.array([[520.0, 0, 318], [0, 520, 241], [0, 0, 1]])
STEP = np.array([1.0, 0.1, 0.2]) / np.linalg.norm([1.0, 0.1, 0.2])
P_01 = np.column_stack([rotation(np.array([0.05, -0.15, 0.03])), STEP])


@dataclass(frozen=True, kw_only=True)
class Errors:
    """What errors matches are given."""

    reach_px: float = 0.0  # of those that neighbours share
    share: float = 0.0
    wrong: float = 0.0  # share of the matches
    lens_px: float = 0.0  # at half a diagonal

    def drawn(
        self, rng: np.random.Generator, law: mixture.ErrorLaw, points: Points
    ) -> FloatArray:
        """Fine parts by a Gaussian copula, then what failed and what is wrong."""
        z = rng.normal(size=(len(points), 2))
        if self.reach_px:
            apart = np.linalg.norm(points[:, None] - points, axis=2)
            C = np.exp(-apart / self.reach_px) + 1e-9 * np.eye(len(points))
            shared = np.linalg.cholesky(C) @ rng.normal(size=z.shape)
            z = np.sqrt(self.share) * shared + np.sqrt(1.0 - self.share) * z
        u = ndtr(z)
        unit = np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))
        errors = law.fine_scale * unit + self.lens(points)
        failed = rng.random(errors.shape) < mixture.tail_prob(law)
        errors = np.where(failed, rng.laplace(0.0, law.coarse_scale), errors)
        wrong = rng.random(len(points)) < self.wrong
        errors[wrong] = rng.uniform(-200.0, 200.0, (int(wrong.sum()), 2))
        return errors

    def lens(self, points: Points) -> Points:
        """What the lens adds to points of an image of 640 × 480."""
        return self.lens_px * radial(points, (640, 480)).T


KINDS = {
    "own errors": Errors(),
    "15 % wrong": Errors(wrong=0.15),
    "shared over 30 px": Errors(reach_px=30.0, share=1.0),
    "shared over 100 px": Errors(reach_px=100.0, share=1.0),
    "a quarter over 100 px": Errors(reach_px=100.0, share=0.25),
    "lens of 1 px": Errors(lens_px=1.0),
}
# Of a generator and errors: how far the model is off, and its covariance.
Trial = Callable[[np.random.Generator, Errors], tuple[Vector, Matrix | None]]


def of_plane(rng: np.random.Generator, errors: Errors) -> tuple[Vector, Matrix | None]:
    matches, _ = SyntheticMatcher().match(H_01, count=COUNT, seed=_seed(rng))
    true = plane.project(H_01, matches.source)
    drawn = errors.drawn(rng, error_law(matches, LAW), true)
    refit = semisure.refit_homography(replace(matches, target=true + drawn), LAW, H_01)
    corners = plane.corners(matches.source_size)
    there = plane.project(H_01, corners)
    assert refit.model is not None
    off = plane.project(refit.model, corners) - there - errors.lens(there)
    return off.ravel(), refit.covariance


def of_pose(rng: np.random.Generator, errors: Errors) -> tuple[Vector, Matrix | None]:
    maker = SyntheticMatcher()
    matches, _ = maker.match_world(POSE, EXAMPLE_CAMERA, count=COUNT, seed=_seed(rng))
    true = se3.project(POSE, EXAMPLE_CAMERA, matches.world)
    drawn = errors.drawn(rng, error_law(matches, LAW), true)
    moved = replace(matches, points=true + drawn)
    refit = refit_pose(moved, EXAMPLE_CAMERA, LAW, POSE)
    assert refit.model is not None
    return se3.tangent(refit.model, POSE), refit.covariance


def of_fundamental(
    rng: np.random.Generator, errors: Errors
) -> tuple[Vector, Matrix | None]:
    matches, true = _views(rng, errors)
    refit = refit_fundamental(matches, LAW, epipolar.fundamental(P_01, K, K))
    assert refit.model is not None
    form = Seven.of(refit.model, matches.source_size, matches.target_size)
    return _off_lines(form.lines(true)), refit.covariance


def of_relative(
    rng: np.random.Generator, errors: Errors
) -> tuple[Vector, Matrix | None]:
    matches, true = _views(rng, errors)
    refit = refit_relative(matches, LAW, P_01, K, K)
    assert refit.model is not None
    views = epipolar.CalibratedViews(refit.model, K, K)
    return _off_lines(views.lines(true)), refit.covariance


def _views(
    rng: np.random.Generator, errors: Errors
) -> tuple[semisure.Matches, semisure.Matches]:
    """Matches of a scene in depth, and the same without errors."""
    matches, depth = SyntheticMatcher().match_views(
        P_01, K, count=COUNT, seed=_seed(rng)
    )
    X = depth[:, None] * epipolar.rays(K, matches.source) @ P_01[:, :3].T + P_01[:, 3]
    x = X @ K.T
    true = x[:, :2] / x[:, 2:]
    drawn = errors.drawn(rng, error_law(matches, LAW), true)
    return replace(matches, target=true + drawn), replace(matches, target=true)


def _off_lines(lines: epipolar.Lines) -> Vector:
    """True matches are J θ off the lines of a model that is θ off."""
    return np.asarray(np.linalg.lstsq(lines.jacobian, lines.distance, rcond=None)[0])


def _far(off: Vector, C: Matrix | None) -> float:
    assert C is not None
    return float(off @ np.linalg.solve(C, off))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 30))


MODELS: dict[str, tuple[Trial, int]] = {
    "plane": (of_plane, 8),
    "camera pose": (of_pose, 6),
    "fundamental": (of_fundamental, 7),
    "relative pose": (of_relative, 5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    options = parser.parse_args()
    for name in options.models:
        trial, parameters = MODELS[name]
        for kind, errors in KINDS.items():
            rng = np.random.default_rng(1)
            trials = [trial(rng, errors) for _ in range(options.trials)]
            far = np.array([_far(off, C) for off, C in trials])
            inside = [np.mean(far < chi2.ppf(p, parameters)) for p in (0.5, 0.9)]
            words = " / ".join(f"{100 * share:3.0f}" for share in inside)
            print(f"{name:14} {kind:22} {words} %", flush=True)


if __name__ == "__main__":
    main()

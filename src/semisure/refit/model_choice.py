"""Plane or depth? The likelihood of a homography against that of epipolar lines.

Both models explain a match that lies where the plane puts it. They differ in matches on
their epipolar line but off the plane. Under a homography these are coarse cells that
erred along the line, with the chance pᵢ that the law gives each; in a scene with depth
a share δ of the matches is off the plane besides, whatever their cells did:

    P(off) = pᵢ + (1 − pᵢ) δ
    log odds = Σ log P(off or not | δ) − log P(off or not | 0) − ½ · 3 · log(blocks)

with the likeliest δ. The sum is over blocks of the image, since neighbours have
correlated errors. The penalty is for three parameters more than the homography's 8:
those of a fundamental matrix (7), of a plane in it (3), and δ. Only whether a match is
off counts, not how far: laws predict how often cells fail better than how far, and
repeated structure fails far, in one direction. Where δ is below a tenth, the scene
counts as a plane however large the odds: relief, a passer-by or a lens cause as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.geometry import homography as plane
from semisure.geometry.homography import far_not_undefined
from semisure.geometry.significance import BLOCK_PX, squares
from semisure.law import mixture
from semisure.law.mixture import rising_root
from semisure.refit.lines import AcrossLines, G
from semisure.types import Matrix3, PerMatch

# Off the plane: this many fine scales along the line. The law's own chance of that,
# e⁻⁴, is small beside that of a coarse failure.
OFF_SCALES = 4.0
# How far lenses and relief take a plane from a homography, as a share of the diagonal:
# one pixel in a thousand.
PLANE_FLOOR = 1e-3
# The share δ from which a scene has depth.
DEPTH_SHARE = 0.1
EXTRA_PARAMETERS = 3
MIN_PROBABILITY = 1e-4  # of what the law calls impossible
MIN_BLOCK_WEIGHT = 0.5  # matches on their lines, by weight, that make a block count


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the matches on epipolar lines show: a plane, or depth."""

    off_plane: float  # share of the matches on their lines that are off the plane
    expected_off: float  # the share that the law expects of a plane
    depth_share: float  # δ, the share that is off whatever the law expects
    log_odds: float  # of depth against a plane, nats; see above

    @property
    def depth(self) -> bool:
        """True where one plane does not explain what epipolar lines explain."""
        return self.log_odds > 0 and self.depth_share > DEPTH_SHARE


def weigh_depth(view: AcrossLines[G], H_01: Matrix3) -> Evidence:
    """The evidence for depth, between lines and the homography of the best plane.

    >>> from semisure.law.error_laws import error_law
    >>> from semisure.geometry.epipolar import CalibratedViews
    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
    >>> P_01 = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    >>> for depths in ((4.0, 12.0), (8.0, 8.0)):
    ...     matches, _ = SyntheticMatcher().match_views(P_01, K, depths=depths)
    ...     law = error_law(matches, EXAMPLE_CALIBRATION)
    ...     view = AcrossLines.at(CalibratedViews(P_01, K, K), matches, law)
    ...     plane = np.array([[1, 0, 500 / 8], [0, 1, 0], [0, 0, 1.0]])
    ...     print(weigh_depth(view, plane).depth)
    True
    False
    """
    is_off, expected = _off_plane(view, H_01)
    weight = _block_weights(view)
    blocks = max(float(weight.sum()), 1.0)
    share = _likeliest_share(is_off, expected, weight)
    gain = weight @ (_log_likelihood(is_off, expected, share))
    gain -= weight @ _log_likelihood(is_off, expected, 0.0)
    return Evidence(
        off_plane=float(weight @ is_off) / blocks,
        expected_off=float(weight @ expected) / blocks,
        depth_share=share,
        log_odds=float(gain) - 0.5 * EXTRA_PARAMETERS * float(np.log(blocks)),
    )


def _off_plane(view: AcrossLines[G], H_01: Matrix3) -> tuple[PerMatch, PerMatch]:
    """1 where a match is off the plane along its line, else 0; the chance of 1."""
    matches, law = view.matches, view.match_law
    normal = view.lines.normal
    along = np.stack([-normal[:, 1], normal[:, 0]], axis=1)
    parallax = np.abs((along * far_not_undefined(plane.residual(H_01, matches))).sum(1))
    floor = PLANE_FLOOR * np.linalg.norm(matches.refined_size, axis=1)
    fine = np.hypot(np.abs(along * law.fine_scale).sum(axis=1), floor)
    coarse = np.maximum(np.abs(along * law.coarse_scale).sum(axis=1), fine)
    failed = (along**2 * mixture.tail_prob(law)).sum(axis=1)
    limit = OFF_SCALES * fine
    chance = (1.0 - failed) * np.exp(-OFF_SCALES) + failed * np.exp(-limit / coarse)
    is_off = (parallax > limit).astype(np.float64)
    return is_off, np.clip(chance, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)


def _block_weights(view: AcrossLines[G]) -> PerMatch:
    """Weights of the matches on their lines that sum to at most 1 in each block."""
    weight = view.weight()
    block = squares(view.matches.refined, BLOCK_PX)
    total = np.bincount(block, weight)
    shared = weight / np.maximum(total, 1.0)[block]
    return np.where(total[block] > MIN_BLOCK_WEIGHT, shared, 0.0)


def _likeliest_share(is_off: PerMatch, expected: PerMatch, weight: PerMatch) -> float:
    """The δ of greatest likelihood, which is concave: where its slope is 0, or 0."""

    def fall(share: float) -> float:
        chance = expected + (1.0 - expected) * share
        pull = np.where(is_off > 0, (1.0 - expected) / chance, -1.0 / (1.0 - share))
        return -float(weight @ pull)

    if fall(0.0) >= 0:
        return 0.0
    return float(rising_root(fall, 0.0, 1.0 - MIN_PROBABILITY, tolerance=1e-9))


def _log_likelihood(is_off: PerMatch, expected: PerMatch, share: float) -> PerMatch:
    chance = expected + (1.0 - expected) * share
    return np.where(is_off > 0, np.log(chance), np.log1p(-chance))

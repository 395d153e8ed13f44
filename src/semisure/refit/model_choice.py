"""Plane or depth? What the law's likelihood says of a homography against lines.

Both models explain a match that lies where the plane puts it. They differ in matches on
their epipolar line but away from the plane. Under a homography these are coarse cells
that erred along the line, as often as the law says; in a scene with depth their share q
is free. Only whether a match is off the plane is asked, not how far: laws know better
how often cells fail than how far, and repeated structure fails far, in one direction.

    log odds = Σ over blocks of log P(off or not | q) − log P(off or not | law)
               − ½ · (extra parameters) · log(blocks)

Neighbouring matches err together, so a block of the image counts once. And where less
than a seventh of the blocks leave the plane beyond what the law expects, the scene is
told as a plane, however certain the rest: relief, a passer-by, a lens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from semisure import mixture
from semisure.geometry import homography as plane
from semisure.geometry.significance import BLOCK_PX
from semisure.refit.across_lines import AcrossLines, Geometry
from semisure.refit.covariance import block_ids
from semisure.refit.initial import far_not_undefined
from semisure.types import Matrix3, PerMatch

# Off the plane: this many fine scales along the line. The law's own chance of that,
# e⁻⁴, is small beside that of a coarse failure.
OFF_SCALES = 4.0
# How far lenses and relief take a plane from a homography, as a share of the diagonal:
# one pixel in a thousand.
PLANE_FLOOR = 1e-3
# Blocks off the plane beyond the law's, from which a scene has depth.
DEPTH_SHARE = 1 / 7
# A fundamental matrix (7) with a plane in it (3) and q, against a homography (8).
EXTRA_PARAMETERS = 3
MIN_PROBABILITY = 1e-4  # of what the law calls impossible
MIN_BLOCK_WEIGHT = 0.5  # matches on their lines, by weight, that make a block count

G = TypeVar("G", bound=Geometry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the matches on epipolar lines say of a scene: a plane or depth."""

    blocks: float  # of the image with a match on its line
    off_plane: float  # share of them off the plane
    expected_off: float  # the share that the law expects of a plane
    log_odds: float  # of depth against a plane, nats; see above

    @property
    def depth(self) -> bool:
        """True where one plane does not explain what epipolar lines explain."""
        return self.log_odds > 0 and self.off_plane - self.expected_off > DEPTH_SHARE


def weigh_depth(view: AcrossLines[G], H_01: Matrix3) -> Evidence:
    """The evidence for depth, between lines and the homography of the best plane.

    >>> from semisure.error_laws import error_law
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
    off, expected = _off_plane(view, H_01)
    weight = _block_weights(view)
    blocks = float(weight.sum())
    if blocks == 0:
        return Evidence(blocks=0.0, off_plane=0.0, expected_off=0.0, log_odds=0.0)
    q = float(weight @ off) / blocks
    gain = float(weight @ (_log_bernoulli(off, q) - _log_bernoulli(off, expected)))
    penalty = 0.5 * EXTRA_PARAMETERS * np.log(max(blocks, 1.0))
    return Evidence(
        blocks=blocks,
        off_plane=q,
        expected_off=float(weight @ expected) / blocks,
        log_odds=gain - float(penalty),
    )


def _off_plane(view: AcrossLines[G], H_01: Matrix3) -> tuple[PerMatch, PerMatch]:
    """1 where a match is off the plane along its line, else 0; and the law's chance."""
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
    return (parallax > limit).astype(np.float64), chance


def _block_weights(view: AcrossLines[G]) -> PerMatch:
    """Weights of the matches on their lines that sum to at most 1 in each block."""
    weight = view.weight()
    block = block_ids(view.matches.refined, BLOCK_PX)
    total = np.bincount(block, weight)
    shared = weight / np.maximum(total, 1.0)[block]
    return np.where(total[block] > MIN_BLOCK_WEIGHT, shared, 0.0)


def _log_bernoulli(event: PerMatch, chance: PerMatch | float) -> PerMatch:
    p = np.clip(chance, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return np.where(event > 0, np.log(p), np.log1p(-p))

"""Cameras that are not quite what they are said to be.

A relative pose rests on the intrinsics that it is given. A principal point that is off
is taken for a turn of the camera, a focal length that is off for a step of it, and no
number of matches averages that away. So each of these errors moves the pose by what it
does to the matches, and is as large as is usual:

    C += Σ_k v_k v_kᵀ,    v_k = A⁻¹ Σ Jᵀψ′φ_k

with A the bread of the sandwich and φ_k how far the k-th error, one standard deviation
large, moves each point across its line.

How large is usual depends on where the intrinsics are from. A principal point in the
very middle of the image was not measured but assumed, and the focal length beside it is
of EXIF or of structure from motion. Any other principal point is of a calibration.

A query and its map are seen by cameras that were adjusted together, as a rule, so that
they err alike: an error that they share bends the map and leaves the query's place in
it. Only their focal lengths may differ, by as much as the adjustment leaves open.
"""

from __future__ import annotations

import numpy as np

from semisure.geometry.epipolar import CalibratedViews, Lines
from semisure.types import (
    FloatArray,
    Labels,
    Matches,
    Matrix3,
    PerAxis,
    Points,
    WorldMatches,
)

# Standard deviations: of either coordinate of the principal point in diagonals of the
# image, and of the focal length as a share of it. Published calibrations of a few
# cameras (of the TUM RGB-D, EuRoC, KITTI and Strecha sets) have principal points about
# 1 % of the diagonal from the middle; no script computes that. That a calibration is
# good to a tenth of it is a guess. Relative poses of known truth were in sight.
MEASURED, GUESSED = 1e-3, 1e-2
OF_QUERY = 2e-4  # of a focal length beside those of the map
MIDDLE_PX = 0.51  # so near to the middle, by either convention of pixels, is no chance
ONE_CAMERA = 0.01  # focal lengths that differ by less are of one, which errs once


def across_lines(
    views: CalibratedViews, lines: Lines, matches: Matches, share: float | None
) -> FloatArray:
    """px by which each error, one standard deviation large, moves distances, (k, 1, n).

    Principal point, x and y, and focal length; of either camera, or of one camera that
    took both images. `share` in place of the usual deviations says how good they are.
    """
    sides = (
        (matches.source, views.K0, matches.source_size),
        (matches.target, views.K1, matches.target_size),
    )
    first, second = (
        deviation(K, size, share)
        * _by_camera(lines, matches.side, image, points, K, size)
        for image, (points, K, size) in enumerate(sides)
    )
    shared = matches.source_size == matches.target_size and _alike(views.K0, views.K1)
    both = first + second if shared else np.concatenate([first, second])
    return np.asarray(both[:, None])


def of_query(matches: WorldMatches, share: float | None) -> FloatArray:
    """The same of a query's focal length, px by which points move, (1, 2, n).

    `share` is as for a relative pose.
    """
    off = matches.points - 0.5 * (matches.refined_size - 1.0)
    return np.asarray((OF_QUERY if share is None else share) * off.T[None])


def deviation(K: Matrix3, size: tuple[int, int], share: float | None = None) -> float:
    """The standard deviation of intrinsics, in diagonals and in focal lengths.

    >>> K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
    >>> deviation(K, (640, 480)), deviation(K + 3.0, (640, 480))
    (0.01, 0.001)
    """
    if share is not None:
        return share
    off = np.abs(K[:2, 2] - 0.5 * (np.array(size) - 1.0))
    return GUESSED if bool((off < MIDDLE_PX).all()) else MEASURED


def _alike(K0: Matrix3, K1: Matrix3) -> bool:
    return bool(abs(K0[0, 0] - K1[0, 0]) < ONE_CAMERA * K0[0, 0])


def _by_camera(
    lines: Lines,
    side: Labels,
    image: int,
    points: Points,
    K: Matrix3,
    size: tuple[int, int],
) -> FloatArray:
    """px of distance per diagonal of principal point and focal length, (3, n)."""
    by_point: PerAxis = np.where(
        (side == image)[:, None], lines.normal, lines.by_anchor
    )
    by_focal = (by_point * (points - K[:2, 2])).sum(axis=1)
    return np.stack([*(np.hypot(*size) * by_point.T), by_focal])

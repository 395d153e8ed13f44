"""From 2D–2D to 2D–3D: a match to a mapped image takes its triangulated point.

As hloc does for dense matches: the point of the match in the map's image is assigned to
the nearest triangulated keypoint within a radius; of several matches near the
same one, the most confident counts. hloc leaves the query's point where it was, though
the keypoint is up to a radius away; here it is moved too, by the local affine map
that the neighbouring matches imply.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from semisure.types import (
    FloatArray,
    Labels,
    Matches,
    PerMatch,
    Points,
    Points3,
    WorldMatches,
)

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

RADIUS_PX = 2.0  # hloc's max_error for dense matches
NEIGHBOURS = 16  # matches behind a local affine map
MAX_STRETCH = 4.0  # an affine map that stretches more is rejected
PER_AXIS = 2.0 / np.pi  # E|r_x| of errors of mean length 1 in random directions
_MIN_SPREAD_PX = 1.0  # of the neighbours, about their mean


def lift(
    matches: Matches,
    observed: Points,
    world: Points3,
    error_px: PerMatch | None = None,
    *,
    radius_px: float = RADIUS_PX,
    compensate: bool = True,
) -> WorldMatches:
    """2D–3D matches of image 0, the query, from matches to a mapped image 1.

    `observed` (m, 2) px are the triangulated keypoints of image 1, `world` (m, 3)
    their points and `error_px` (m,) the points' mean reprojection errors. With
    `compensate` the query's point is moved by the keypoint's offset from the match.
    """
    matches, shift_map = towards_source(matches)
    chosen, keypoint = _claims(matches, observed, radius_px)
    maps = local_maps(matches, chosen)
    points = matches.source[chosen]
    if compensate:
        offset = observed[keypoint] - matches.target[chosen]
        points = points + np.einsum("nij,nj->ni", maps, offset)
    if error_px is None:
        error_px = np.zeros(len(observed))
    return WorldMatches(
        points=points,
        world=world[keypoint],
        map_error=PER_AXIS * error_px[keypoint],
        confidence=matches.confidence[chosen],
        fine_std=matches.fine_std[chosen],
        coarse_std=matches.coarse_std[chosen],
        fine_window=matches.fine_window[chosen],
        shift_map=shift_map[chosen],
        size=matches.source_size,
    )


def _claims(
    matches: Matches, observed: Points, radius_px: float
) -> tuple[Labels, Labels]:
    """The most confident match near each keypoint, and those keypoints."""
    from scipy.spatial import cKDTree

    claimed = nearest(cKDTree(observed), matches.target, radius_px)
    claims = np.flatnonzero(claimed >= 0)
    order = claims[np.argsort(-matches.confidence[claims], kind="stable")]
    _, first = np.unique(claimed[order], return_index=True)
    chosen = np.sort(order[first]).astype(np.int64)
    return chosen, claimed[chosen]


def nearest(tree: cKDTree, points: Points, radius_px: float) -> Labels:
    """The keypoint of a tree next to each point, −1 where none is that near.

    >>> from scipy.spatial import cKDTree
    >>> tree = cKDTree(np.array([[3.0, 4.0], [9.0, 9.0]]))
    >>> nearest(tree, np.array([[4.0, 4.0], [6.0, 6.0]]), 2.0)
    array([ 0, -1])
    """
    distance, place = tree.query(points, distance_upper_bound=radius_px)
    return np.where(np.isfinite(distance), place, -1).astype(np.int64)


def local_maps(matches: Matches, chosen: Labels) -> FloatArray:
    """∂ source / ∂ target around the chosen matches, (k, 2, 2).

    Least squares over the nearest matches, each weighted by how well it agrees with
    their median shift, so that a wrong neighbour has little weight. The identity where
    the neighbours do not determine a map, or determine an absurd one.
    """
    from scipy.spatial import cKDTree

    if not len(chosen):
        return np.zeros((0, 2, 2))
    count = min(NEIGHBOURS, len(matches))
    _, near = cKDTree(matches.target).query(matches.target[chosen], k=count)
    near = near.reshape(len(chosen), count)
    a, b = matches.target[near], matches.source[near]
    shift = b - a
    distance = np.linalg.norm(shift - np.median(shift, axis=1, keepdims=True), axis=2)
    spread = np.median(distance, axis=1, keepdims=True) + 1.0
    w = 1.0 / (1.0 + (distance / spread) ** 2) ** 2
    w = (w / w.sum(axis=1, keepdims=True))[..., None]
    a, b = (
        a - (w * a).sum(axis=1, keepdims=True),
        b - (w * b).sum(axis=1, keepdims=True),
    )
    aa = np.einsum("nki,nkj->nij", w * a, a)
    ba = np.einsum("nki,nkj->nij", w * b, a)
    sound = np.linalg.eigvalsh(aa)[:, 0] > _MIN_SPREAD_PX**2
    maps = np.tile(np.eye(2), (len(chosen), 1, 1))
    maps[sound] = ba[sound] @ np.linalg.inv(aa[sound])
    stretch = np.linalg.svd(maps, compute_uv=False)
    absurd = (stretch[:, 0] > MAX_STRETCH) | (stretch[:, 1] < 1.0 / MAX_STRETCH)
    maps[absurd] = np.eye(2)
    return maps


def towards_source(matches: Matches) -> tuple[Matches, FloatArray]:
    """The matches with all cues on image 0, whichever image was refined.

    An error of s px in image 1 is one of s times the local magnification in image 0:
    its standard deviations and window are scaled by it, axes averaged. Also the
    `shift_map` of each match, see :class:`WorldMatches`.
    """
    shift_map = np.tile(np.eye(2), (len(matches), 1, 1))
    other = np.flatnonzero(matches.side == 1)
    if not len(other):
        return matches, shift_map
    maps = local_maps(matches, other)
    zoom = np.ones(len(matches))
    zoom[other] = np.sqrt(np.abs(np.linalg.det(maps)))
    # A shift of the point in image 1 acts like the opposite one in image 0.
    shift_map[other] = -maps / zoom[other, None, None]
    transported = replace(
        matches,
        fine_std=matches.fine_std * zoom[:, None],
        coarse_std=matches.coarse_std * zoom[:, None],
        fine_window=matches.fine_window * zoom,
        side=np.zeros(len(matches), dtype=np.int64),
        cell=None,  # a cell of image 1 is none of image 0
    )
    return transported, shift_map

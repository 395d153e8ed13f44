"""True residuals of matches beside the points of a COLMAP model.

A match whose unrefined point lies within a radius of a triangulated point should lie
beside that point's place in the other image too, as far as the local affine map of the
neighbouring matches says. The point need not be observed in the other image, which
would leave the easy ones only; it must be visible there, by the depth of its
neighbours. The truth is as good as the model: about its mean reprojection error.

Lenses bend epipolar lines. So matches are returned undistorted, with the fundamental
matrix of the pinhole cameras.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from semisure.calibrate.scenes import ScenePair
from semisure.errors import InputError
from semisure.geometry import camera as lens
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.geometry.epipolar import fundamental
from semisure.geometry.fundamental import of_rank_2
from semisure.geometry.lifting import RADIUS_PX, local_maps, nearest
from semisure.io.colmap import MapModel
from semisure.types import Labels, Matches, PerAxis, PerMatch, Points, Points3, Pose

MIN_SHARED = 50  # points that two images must both observe
# A point is visible where the nearest point that is observed there, within this share
# of the diagonal, has the same depth, within that share of it.
NEIGHBOUR_SHARE, SAME_DEPTH = 0.02, 0.1


def covisible(model: MapModel) -> list[tuple[str, str]]:
    """Pairs of images that share points, those that share most first."""
    from scipy.sparse import csr_matrix, triu

    names = sorted(model.images)
    observed = [_points_of(model, name) for name in names]
    rows = np.repeat(np.arange(len(names)), [len(points) for points in observed])
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *observed])
    shape = len(names), max(len(model.point_ids), 1)
    table = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
    shared = triu(table @ table.T, 1).tocoo()
    order = np.argsort(-shared.data, kind="stable")
    order = order[shared.data[order] >= MIN_SHARED]
    if not len(order):
        raise InputError(
            f"No two images of the map share {MIN_SHARED} points; a calibration from "
            "a map needs images that overlap."
        )
    return [(names[shared.row[k]], names[shared.col[k]]) for k in order]


def _points_of(model: MapModel, name: str) -> Labels:
    """Indices into the map's points that an image observes, each once."""
    return np.flatnonzero(np.isin(model.point_ids, model.images[name].point_ids))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapView:
    """One image of a map at the size it was matched at."""

    camera: Camera
    pose: Pose  # from world to camera
    world: Points3  # the points that it observes

    @classmethod
    def of(cls, model: MapModel, name: str, size: tuple[int, int]) -> MapView:
        image = model.images[name]
        camera = model.cameras[image.camera_id].camera().resized(size)
        world = model.world[_points_of(model, name)]
        return cls(camera=camera, pose=image.pose, world=world)

    def project(self, world: Points3) -> Points:
        """Pixels of world points; NaN behind the camera."""
        return se3.project(self.pose, self.camera, world)

    def depth(self, world: Points3) -> PerMatch:
        return se3.to_camera(self.pose, world)[:, 2]

    def straight(self, points: Points) -> Points:
        """Points as a pinhole sees them; as they are where the lens has no inverse."""
        if not any(self.camera.coefficients[4:]):
            return points
        K = self.camera.matrix
        straight = lens.unproject(self.camera, points) @ K[:2, :2].T + K[:2, 2]
        return np.where(np.isfinite(straight), straight, points)


def beside_points(
    model: MapModel, names: tuple[str, str], matches: Matches
) -> ScenePair:
    """The matches with their true residuals, NaN where no point is near."""
    view0 = MapView.of(model, names[0], matches.source_size)
    view1 = MapView.of(model, names[1], matches.target_size)
    residual = np.full((len(matches), 2), np.nan)
    for side, view, other in ((1, view1, view0), (0, view0, view1)):
        which = matches.side == side
        world = visible(other.world, view)
        turned = matches if side == 0 else matches.swapped()  # image 0 is the refined
        beside = residual_beside(turned, view.project(world), other.project(world))
        residual[which] = beside[which]
    (R0, t0), (R1, t1) = ((v.pose[:, :3], v.pose[:, 3]) for v in (view0, view1))
    P_01 = np.column_stack([R1 @ R0.T, t1 - R1 @ R0.T @ t0])
    K0, K1 = view0.camera.matrix, view1.camera.matrix
    source, target = view0.straight(matches.source), view1.straight(matches.target)
    return ScenePair(
        matches=replace(matches, source=source, target=target),
        residual=residual,
        F_01=of_rank_2(fundamental(P_01, K0, K1)),
    )


def visible(world: Points3, view: MapView) -> Points3:
    """The points that a view shows, by the depth of the nearest one observed there."""
    from scipy.spatial import cKDTree

    if not len(world) or not len(view.world):
        return world[:0]
    places, own = view.project(world), view.project(view.world)
    front = np.isfinite(own).all(axis=1)
    reach = NEIGHBOUR_SHARE * float(np.hypot(*view.camera.size))
    far = np.where(np.isfinite(places), places, -1e9)  # behind the camera
    beside = nearest(cKDTree(own[front]), far, reach)
    depth = view.depth(view.world)[front][beside]
    same = np.abs(view.depth(world) - depth) <= SAME_DEPTH * depth
    return world[(beside >= 0) & same]


def residual_beside(matches: Matches, points0: Points, points1: Points) -> PerAxis:
    """Predicted minus true in image 0, by points whose places are known in both.

    NaN for matches whose point in image 1 has none within a radius.
    """
    from scipy.spatial import cKDTree

    residual = np.full((len(matches), 2), np.nan)
    beside = nearest(cKDTree(points1), matches.target, RADIUS_PX)
    near = np.flatnonzero(beside >= 0)
    offset = matches.target[near] - points1[beside[near]]
    carried = np.einsum("nij,nj->ni", local_maps(matches, near), offset)
    residual[near] = matches.source[near] - points0[beside[near]] - carried
    return residual

"""True residuals of the matches of posed images, by their depth."""

from __future__ import annotations

import numpy as np

from semisure.datasets.posed import PosedCamera, PosedPair, depth_at
from semisure.errors import FileError
from semisure.types import Matches, PerAxis, PerMatch, Points, Pose

# A point whose depth in the other image differs by more is hidden there (LoFTR's).
MAX_DEPTH_RATIO = 0.2
_FAR_PX = 1e7  # stands for points that are nowhere

Size = tuple[int, int]  # width, height


def depth_residual(pair: PosedPair, matches: Matches) -> PerAxis:
    """Predicted minus true on the refined side, px; NaN where unknown.

    The cameras' intrinsics must be those of the images as they were matched.
    """
    a, b = pair.camera0, pair.camera1
    size0, size1 = matches.source_size, matches.target_size
    R, t = pair.P_01[:, :3], pair.P_01[:, 3]
    P_10 = np.column_stack([R.T, -R.T @ t])
    residuals = np.empty_like(matches.source)
    on1 = matches.side == 1
    forth = carried(matches.source[on1], a, b, pair.P_01, size0, size1)
    back = carried(matches.target[~on1], b, a, P_10, size1, size0)
    residuals[on1] = matches.target[on1] - forth
    residuals[~on1] = matches.source[~on1] - back
    return residuals


def carried(
    points: Points,
    here: PosedCamera,
    there: PosedCamera,
    pose: Pose,
    size_here: Size,
    size_there: Size,
) -> Points:
    """Where points of one image lie in the other; NaN where depth is unknown."""
    z = _depth(here, points, size_here)
    rays = np.column_stack([points, np.ones(len(points))]) @ np.linalg.inv(here.K).T
    X = (rays * z[:, None]) @ pose[:, :3].T + pose[:, 3]
    front = X[:, 2] > 0
    image = np.where(front[:, None], X, np.nan) @ there.K.T
    other = image[:, :2] / image[:, 2:]
    somewhere = np.clip(np.nan_to_num(other, nan=_FAR_PX), -_FAR_PX, _FAR_PX)
    seen = _depth(there, somewhere, size_there)
    agrees = np.abs(seen - X[:, 2]) <= MAX_DEPTH_RATIO * X[:, 2]
    return np.where(agrees[:, None], other, np.nan)


def _depth(camera: PosedCamera, points: Points, size: Size) -> PerMatch:
    z = depth_at(camera, points, size)
    if z is None:
        raise FileError(
            f"There is no depth of {camera.image}; without it the matches' true errors "
            "are unknown."
        )
    return z

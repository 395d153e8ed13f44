"""True residuals of matches between posed images, from measured depth."""

from __future__ import annotations

import numpy as np

from semisure.datasets.posed import Camera, PosedPair, depth_at
from semisure.errors import FileError
from semisure.types import FloatArray, Matches

# A point whose depth in the other image differs by more is hidden there (LoFTR's).
MAX_DEPTH_RATIO = 0.2
_FAR_PX = 1e7  # stands for points that are nowhere


def depth_residual(pair: PosedPair, matches: Matches) -> FloatArray:
    """Predicted minus true on the refined side, (n, 2) px; NaN where unknown.

    The cameras' intrinsics must be those of the images as they were matched.
    """
    a, b = pair.camera0, pair.camera1
    size0, size1 = matches.source_size, matches.target_size
    R, t = pair.P_01[:, :3], pair.P_01[:, 3]
    found = np.empty_like(matches.source)
    on1 = matches.side == 1
    forth = carried(matches.source[on1], a, b, R, t, size0, size1)
    back = carried(matches.target[~on1], b, a, R.T, -R.T @ t, size1, size0)
    found[on1] = matches.target[on1] - forth
    found[~on1] = matches.source[~on1] - back
    return found


def carried(
    points: FloatArray,
    here: Camera,
    there: Camera,
    R: FloatArray,
    t: FloatArray,
    size_here: tuple[int, int],
    size_there: tuple[int, int],
) -> FloatArray:
    """Where points of one image lie in the other, NaN where depth does not tell."""
    z = _depth(here, points, size_here)
    rays = np.column_stack([points, np.ones(len(points))]) @ np.linalg.inv(here.K).T
    X = (rays * z[:, None]) @ R.T + t
    front = X[:, 2] > 0
    image = np.where(front[:, None], X, np.nan) @ there.K.T
    other = image[:, :2] / image[:, 2:]
    somewhere = np.clip(np.nan_to_num(other, nan=_FAR_PX), -_FAR_PX, _FAR_PX)
    seen = _depth(there, somewhere, size_there)
    agrees = np.abs(seen - X[:, 2]) <= MAX_DEPTH_RATIO * X[:, 2]
    return np.where(agrees[:, None], other, np.nan)


def _depth(camera: Camera, points: FloatArray, size: tuple[int, int]) -> FloatArray:
    z = depth_at(camera, points, size)
    if z is None:
        raise FileError(
            f"There is no depth of {camera.image}; without it the matches' true errors "
            "are unknown."
        )
    return z

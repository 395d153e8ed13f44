"""COLMAP's camera models: projection, its derivative, its inverse.

==================  ================================  ======================
model               parameters                        distortion
==================  ================================  ======================
``SIMPLE_PINHOLE``  f, cx, cy                         none
``PINHOLE``         fx, fy, cx, cy                    none
``SIMPLE_RADIAL``   f, cx, cy, k                      one radial term
``RADIAL``          f, cx, cy, k1, k2                 two radial terms
``OPENCV``          fx, fy, cx, cy, k1, k2, p1, p2    radial and tangential
==================  ================================  ======================

Each is a special case of the last. Parameters are COLMAP's, whose origin is the corner
of the first pixel; points are ours, whose origin is its centre. The half pixel between
the two is subtracted here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry.epipolar import checked_intrinsics
from semisure.types import Jacobian, Matrix3, PerMatch, Points, Points3
from semisure.types.checks import MAX_PX, as_reals, as_size

# Where fx, fy, cx, cy, k1, k2, p1, p2 stand among a model's parameters; −1 is zero.
_PLACES: dict[str, tuple[int, ...]] = {
    "SIMPLE_PINHOLE": (0, 0, 1, 2, -1, -1, -1, -1),
    "PINHOLE": (0, 1, 2, 3, -1, -1, -1, -1),
    "SIMPLE_RADIAL": (0, 0, 1, 2, 3, -1, -1, -1),
    "RADIAL": (0, 0, 1, 2, 3, 4, -1, -1),
    "OPENCV": (0, 1, 2, 3, 4, 5, 6, 7),
}

CORNER_TO_CENTRE_PX = 0.5  # COLMAP's origin to ours
_UNDISTORT_ITERATIONS = 50
_UNDISTORT_TOLERANCE = 1e-13


@dataclass(frozen=True, slots=True)
class Camera:
    """Intrinsics under COLMAP's names and in COLMAP's pixel frame.

    >>> Camera("SIMPLE_PINHOLE", 640, 480, (500.0, 320.0, 240.0)).focal
    500.0
    """

    model: str
    width: int
    height: int
    params: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.model not in _PLACES:
            raise InputError(
                f"Camera model must be one of {', '.join(_PLACES)}, but is "
                f"{self.model!r}. Undistort the images to PINHOLE first."
            )
        params = as_reals("params", self.params)
        count = max(_PLACES[self.model]) + 1
        if params.shape != (count,) or not (np.abs(params) <= MAX_PX).all():
            raise InputError(
                f"A {self.model} camera has {count} finite parameters, "
                f"but this one has {self.params}."
            )
        object.__setattr__(self, "params", tuple(float(value) for value in params))
        fx, fy = self.coefficients[:2]
        if not min(fx, fy) >= 1.0 / MAX_PX:
            raise InputError(f"A focal length must be positive, but is {min(fx, fy)}.")
        width, height = as_size("A camera's image", (self.width, self.height))
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "height", height)

    @classmethod
    def from_matrix(cls, K: ArrayLike, size: tuple[int, int]) -> Camera:
        """A PINHOLE camera from a 3 × 3 matrix for our pixels (centres at integers)."""
        K = checked_intrinsics(K, "K")
        params = K[0, 0], K[1, 1], K[0, 2] + CORNER_TO_CENTRE_PX
        return cls("PINHOLE", *size, (*params, K[1, 2] + CORNER_TO_CENTRE_PX))

    @property
    def coefficients(self) -> tuple[float, ...]:
        """fx, fy, cx, cy, k1, k2, p1, p2, whatever the model."""
        places = _PLACES[self.model]
        return tuple(0.0 if i < 0 else self.params[i] for i in places)

    @property
    def focal(self) -> float:
        """Mean focal length, px."""
        fx, fy = self.coefficients[:2]
        return 0.5 * (fx + fy)

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    def resized(self, size: tuple[int, int]) -> Camera:
        """The camera of the resized image, as an OPENCV one.

        OPENCV can express every other model. COLMAP counts from the corner of the
        image, so that all lengths just scale.

        >>> Camera("SIMPLE_RADIAL", 640, 480, (500, 320, 240, 0.1)).resized((320, 480))
        Camera(model='OPENCV', width=320, height=480, \
params=(250.0, 500.0, 160.0, 240.0, 0.1, 0.0, 0.0, 0.0))
        """
        if size == self.size:
            return self
        fx, fy, cx, cy, *lens = self.coefficients
        sx, sy = size[0] / self.width, size[1] / self.height
        return Camera("OPENCV", *size, (sx * fx, sy * fy, sx * cx, sy * cy, *lens))

    @property
    def matrix(self) -> Matrix3:
        """The 3 × 3 matrix for our pixels, without distortion."""
        fx, fy, cx, cy = self.coefficients[:4]
        half = CORNER_TO_CENTRE_PX
        return np.array([[fx, 0.0, cx - half], [0.0, fy, cy - half], [0.0, 0.0, 1.0]])


def project(camera: Camera, points: Points3) -> Points:
    """Pixels (n, 2) of `points` (n, 3) in the camera's frame; NaN behind it."""
    return look(camera, points)[0]


def look(camera: Camera, points: Points3) -> tuple[Points, Jacobian]:
    """Pixels and ∂ pixels / ∂ points, (2, 3, n), each entry contiguous in memory.

    Undefined behind the camera: NaN pixels, any derivative.
    """
    depth = np.where(points[:, 2] > 0, points[:, 2], np.nan)
    u, v = points[:, 0] / depth, points[:, 1] / depth
    fx, fy, cx, cy, *lens = camera.coefficients
    with np.errstate(divide="ignore"):
        x, y = fx / points[:, 2], fy / points[:, 2]
    # d(u, v) / d(x, y, z) = (1 0 −u; 0 1 −v) / z
    J: Jacobian = np.zeros((2, 3, len(points)))
    J[0, 0], J[1, 1] = x, y
    du: PerMatch = u
    dv: PerMatch = v
    if any(lens):
        du, dv, (uu, uv, vv) = _distorted(u, v, lens)
        J[:, :2] = [[x * uu, x * uv], [y * uv, y * vv]]
    J[:, 2] = -(J[:, 0] * u + J[:, 1] * v)
    pixels = np.empty((len(u), 2), order="F")
    pixels[:, 0] = fx * du + (cx - CORNER_TO_CENTRE_PX)
    pixels[:, 1] = fy * dv + (cy - CORNER_TO_CENTRE_PX)
    return pixels, J


def unproject(camera: Camera, pixels: Points) -> Points:
    """The points (n, 2) at depth 1 that project to `pixels`; NaN where none does.

    Newton's method on the distortion, which has no closed inverse.
    """
    fx, fy, cx, cy, *lens = camera.coefficients
    image_u = (pixels[:, 0] + CORNER_TO_CENTRE_PX - cx) / fx
    image_v = (pixels[:, 1] + CORNER_TO_CENTRE_PX - cy) / fy
    u, v = image_u.copy(), image_v.copy()
    if any(lens):
        with np.errstate(all="ignore"):
            for _ in range(_UNDISTORT_ITERATIONS):
                du, dv, (uu, uv, vv) = _distorted(u, v, lens)
                miss_u, miss_v = du - image_u, dv - image_v
                determinant = uu * vv - uv * uv
                u = u - (vv * miss_u - uv * miss_v) / determinant
                v = v - (uu * miss_v - uv * miss_u) / determinant
                miss = np.hypot(miss_u, miss_v)
                if not (miss > _UNDISTORT_TOLERANCE).any():
                    break
        # Beyond its turning point the polynomial folds back, which no lens does.
        folded = ~((determinant > 0) & (u * image_u + v * image_v >= 0))
        lost = ~(miss < 1e-9) | folded
        u[lost] = v[lost] = np.nan
    return np.stack([u, v], axis=1)


def _distorted(
    u: PerMatch, v: PerMatch, lens: list[float]
) -> tuple[PerMatch, PerMatch, tuple[PerMatch, PerMatch, PerMatch]]:
    """(u, v) after distortion, and ∂u′/∂u, ∂u′/∂v = ∂v′/∂u, ∂v′/∂v."""
    k1, k2, p1, p2 = lens
    r2 = u * u + v * v
    radial = 1.0 + r2 * (k1 + k2 * r2)
    du = u * radial + 2 * p1 * u * v + p2 * (r2 + 2 * u * u)
    dv = v * radial + 2 * p2 * u * v + p1 * (r2 + 2 * v * v)
    slope = 2.0 * (k1 + 2.0 * k2 * r2)  # d radial / d(r²), doubled
    uu = radial + slope * u * u + 2 * p1 * v + 6 * p2 * u
    uv = slope * u * v + 2 * p1 * u + 2 * p2 * v
    vv = radial + slope * v * v + 2 * p2 * u + 6 * p1 * v
    return du, dv, (uu, uv, vv)

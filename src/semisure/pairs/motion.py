"""The motion between two cameras in numbers that people use: degrees and directions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from semisure.geometry.rotations import rotation_vector
from semisure.types import Matrix, Matrix3, Pose, Vector3

MOTION_NAMES = (  # in a document
    "rotation_deg",
    "rotation_axis",
    "rotation_std_deg",
    "direction",
    "direction_std_deg",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Motion:
    """How camera 1 is turned and moved against camera 0: x₁ ∝ R x₀ + t, ‖t‖ = 1.

    The rotation is by `rotation_deg` about `axis`. `direction` is t: where camera 0
    stands, seen from camera 1; how far away is not known from two images. Standard
    errors are in degrees, None where the matches do not determine them.

    >>> turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    >>> print(Motion.of(np.column_stack([turn, [1.0, 0.0, 0.0]])).describe())
    rotation     90.000° about (0.0000, 0.0000, 1.0000)
    translation  along (1.0000, 0.0000, 0.0000)
    """

    rotation: Matrix3 = field(repr=False)
    rotation_deg: float
    axis: Vector3  # of length 1
    direction: Vector3  # of length 1
    rotation_std_deg: float | None = None
    direction_std_deg: float | None = None

    @classmethod
    def of(cls, P_01: Pose, covariance: Matrix | None = None) -> Motion:
        """The motion of a relative pose [R | t], and how far it is known."""
        vector = rotation_vector(P_01[:, :3])
        angle = float(np.linalg.norm(vector))
        turn, move = (None, None) if covariance is None else std_deg(covariance)
        return cls(
            rotation=P_01[:, :3],
            rotation_deg=float(np.degrees(angle)),
            axis=vector / angle if angle > 0 else np.array([0.0, 0.0, 1.0]),
            direction=P_01[:, 3] / np.linalg.norm(P_01[:, 3]),
            rotation_std_deg=turn,
            direction_std_deg=move,
        )

    def describe(self) -> str:
        """Two lines for people."""
        turn, move = self._turn(), self._move()
        return f"rotation     {turn}\ntranslation  along {move}"

    def _turn(self) -> str:
        angle = f"{self.rotation_deg:.3f}°{_plus_minus(self.rotation_std_deg)}"
        return f"{angle} about {_vector(self.axis)}"

    def _move(self) -> str:
        return f"{_vector(self.direction)}{_plus_minus(self.direction_std_deg)}"

    def document(self) -> dict[str, object]:
        """The same for JSON."""
        turn = self.rotation_deg, self.axis.tolist(), self.rotation_std_deg
        move = self.direction.tolist(), self.direction_std_deg
        return dict(zip(MOTION_NAMES, (*turn, *move), strict=True))

    def __repr__(self) -> str:
        return f"Motion(rotation {self._turn()}, translation along {self._move()})"


def std_deg(covariance: Matrix) -> tuple[float, float]:
    """Standard errors of rotation and direction, from a 5 × 5 covariance, radians²."""
    turn, move = np.trace(covariance[:3, :3]), np.trace(covariance[3:, 3:])
    return float(np.degrees(turn**0.5)), float(np.degrees(move**0.5))


def _vector(values: Vector3) -> str:
    return f"({', '.join(f'{v + 0.0:.4f}' for v in values)})"


def _plus_minus(std: float | None) -> str:
    return "" if std is None else f" ± {std:.2g}°"

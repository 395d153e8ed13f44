"""The models that two images may obey: names, lines, chance, and motion of cameras."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry.epipolar import CalibratedViews
from semisure.geometry.fundamental import Seven
from semisure.geometry.rotations import rotation_vector
from semisure.geometry.significance import (
    FIVE_POINTS,
    SEVEN_POINTS,
    chance_of_alarms,
    log_false_alarms,
    log_false_alarms_of_lines,
)
from semisure.law.mixture import ErrorLaw
from semisure.refit.lines import AcrossLines
from semisure.types import (
    FloatArray,
    Matches,
    Matrix,
    Matrix3,
    Pose,
    RobustEstimator,
    Vector3,
    as_choice,
)

Model = Literal["auto", "homography", "fundamental", "essential"]
MODELS: tuple[Model, ...] = get_args(Model)
Kind = Literal["homography", "fundamental", "essential"]
Cameras = tuple[Matrix3, Matrix3]  # intrinsics
MODEL_NAMES: dict[Kind, str] = {
    "homography": "homography",
    "fundamental": "fundamental matrix",
    "essential": "relative pose",
}

MOTION_NAMES = (  # in a document
    "rotation_deg",
    "rotation_axis",
    "rotation_std_deg",
    "direction",
    "direction_std_deg",
)


def checked_choice(
    model: Model,
    estimator: str | RobustEstimator,
    K0: ArrayLike | None,
    K1: ArrayLike | None,
) -> Cameras | None:
    """Intrinsics of both cameras, those of the first where `K1` is None."""
    as_choice("model", model, MODELS)
    if model == "auto" and not isinstance(estimator, str):
        raise InputError(
            "An estimator of your own finds models of one kind: say which by "
            "model='homography', 'fundamental' or 'essential'."
        )
    if K0 is None:
        if model == "essential" or K1 is not None:
            raise InputError(
                "An essential matrix needs the intrinsics of the cameras: give K0, and "
                "K1 if the second camera differs, as 3 × 3 matrices."
            )
        return None
    second = K0 if K1 is None else K1
    check = epipolar.checked_intrinsics
    return check(K0, "K0"), check(second, "K1")


def lines_matrix(
    kind: Kind, model: FloatArray | None, cameras: Cameras | None
) -> Matrix3 | None:
    """F of a model that has epipolar lines."""
    if model is None or kind == "homography":
        return None
    if kind == "fundamental":
        return model
    assert cameras is not None
    return fm.of_rank_2(epipolar.fundamental(model, *cameras))


def view_of_lines(
    kind: Kind,
    model: FloatArray | None,
    matches: Matches,
    law: ErrorLaw,
    cameras: Cameras | None,
) -> AcrossLines[Any] | None:
    """The matches as seen from the lines of a model, if it has any."""
    if model is None or kind == "homography":
        return None
    if kind == "fundamental":
        form = Seven.of(model, matches.source_size, matches.target_size)
        return AcrossLines.at(form, matches, law)
    assert cameras is not None
    return AcrossLines.at(CalibratedViews(model, *cameras), matches, law)


def chance_of(
    kind: Kind, model: FloatArray, matches: Matches, cameras: Cameras | None
) -> float:
    """Probability of an accidental model, by the a-contrario test."""
    F = lines_matrix(kind, model, cameras)
    if F is None:
        return chance_of_alarms(log_false_alarms(model, matches))
    proposals = FIVE_POINTS if kind == "essential" else SEVEN_POINTS
    alarms = log_false_alarms_of_lines(F, matches, proposals)
    return chance_of_alarms(alarms)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Motion:
    """How camera 1 is turned and moved against camera 0: x₁ ∝ R x₀ + t, ‖t‖ = 1.

    The rotation is by `rotation_deg` about `axis`. `direction` is t: towards
    camera 0, seen from camera 1; two images do not determine the distance. Standard
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
        """The motion of a relative pose [R | t], and its standard errors."""
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
        turn, move = map(_plus_minus, (self.rotation_std_deg, self.direction_std_deg))
        return (
            f"rotation     {self.rotation_deg:.3f}°{turn} about {_vector(self.axis)}\n"
            f"translation  along {_vector(self.direction)}{move}"
        )

    def document(self) -> dict[str, object]:
        """The same for JSON."""
        turn = self.rotation_deg, self.axis.tolist(), self.rotation_std_deg
        move = self.direction.tolist(), self.direction_std_deg
        return dict(zip(MOTION_NAMES, (*turn, *move), strict=True))


def std_deg(covariance: Matrix) -> tuple[float, float]:
    """Standard errors of rotation and direction, from a 5 × 5 covariance, radians²."""
    turn, move = np.trace(covariance[:3, :3]), np.trace(covariance[3:, 3:])
    return float(np.degrees(turn**0.5)), float(np.degrees(move**0.5))


def _vector(values: Vector3) -> str:
    return f"({', '.join(f'{v + 0.0:.4f}' for v in values)})"


def _plus_minus(std: float | None) -> str:
    return "" if std is None else f" ± {std:.2g}°"

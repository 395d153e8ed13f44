"""The models that two images may obey: their names, their lines, their chance."""

from __future__ import annotations

from typing import Any, Literal, get_args

from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry.epipolar import CalibratedViews
from semisure.geometry.fundamental import Seven
from semisure.geometry.significance import (
    FIVE_POINTS,
    SEVEN_POINTS,
    failure_of_lines,
    model_failure,
)
from semisure.law.mixture import ErrorLaw
from semisure.refit.lines import AcrossLines
from semisure.types import FloatArray, Matches, Matrix3

Model = Literal["auto", "homography", "fundamental", "essential"]
MODELS: tuple[Model, ...] = get_args(Model)
Kind = Literal["homography", "fundamental", "essential"]
Cameras = tuple[Matrix3, Matrix3]  # intrinsics
MODEL_NAMES: dict[Kind, str] = {
    "homography": "homography",
    "fundamental": "fundamental matrix",
    "essential": "relative pose",
}


def checked_cameras(
    model: Model, K0: ArrayLike | None, K1: ArrayLike | None
) -> Cameras | None:
    """Intrinsics of both cameras; without `K1` they are the same."""
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
    """Chance, as far as the a-contrario test can tell, of an accidental model."""
    F = lines_matrix(kind, model, cameras)
    if F is None:
        return model_failure(model, matches)
    proposals = FIVE_POINTS if kind == "essential" else SEVEN_POINTS
    return failure_of_lines(F, matches, proposals)

"""One query: its matches lifted to 3D, a pose estimated and refitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from semisure.errors import InputError
from semisure.estimators.pose import estimate_pose
from semisure.estimators.settings import RansacSettings
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.geometry.lifting import RADIUS_PX, lift
from semisure.io.colmap import MapModel
from semisure.mapping.sources import Source
from semisure.refit.core import without_bias
from semisure.refit.poses import refit_pose
from semisure.refit.weights import RefitMethod
from semisure.types import (
    Calibration,
    Estimate,
    Matches,
    Matrix,
    Pose,
    Refit,
    WorldMatches,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalizeSettings:
    """The settings that decide a pose; results of other settings are not reused."""

    estimator: str = "lo-ransac"
    method: RefitMethod = "core+"
    threshold_px: float = 12.0  # hloc's
    radius_px: float = RADIUS_PX
    max_pairs: int | None = None
    seed: int = 0

    def ransac(self) -> RansacSettings:
        return RansacSettings(threshold_px=self.threshold_px, seed=self.seed)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Localized:
    """One query's pose, or the reason why it has none."""

    query: str
    pose: Pose | None  # from world to camera
    reason: str | None
    details: Mapping[str, Any] = field(default_factory=dict)

    def submission(self) -> str:
        """Aachen's line: basename qw qx qy qz tx ty tz."""
        assert self.pose is not None
        numbers = se3.seven_numbers(self.pose)
        return " ".join([Path(self.query).name, *(f"{v:.12g}" for v in numbers)])


def localize_query(
    name: str,
    camera: Camera,
    mapped: Sequence[str],
    model: MapModel,
    source: Source,
    calibration: Calibration,
    settings: LocalizeSettings,
) -> Localized:
    """The pose of one query from its matches to the `mapped` images."""
    parts, images = [], []
    for other in mapped[: settings.max_pairs]:
        part, entry = _lifted(name, camera, other, model, source, settings)
        images.append(entry)
        if part is not None:
            parts.append(part)
    if not parts:
        reason = "the pairs file proposes no mapped image"
        if images:
            reason = str(images[0]["skipped"])
        return Localized(
            query=name, pose=None, reason=reason, details={"mapped": images}
        )
    world = WorldMatches.joined(parts)
    unbiased, _ = without_bias(world, calibration)  # estimators ignore the location
    start = estimate_pose(unbiased, camera, settings.estimator, settings.ransac())
    refit = refit_pose(world, camera, calibration, start, method=settings.method)
    return Localized(
        query=name,
        pose=refit.model,
        reason=refit.reason if refit.model is None else None,
        details={"mapped": images, "lifted": len(world), **_details(start, refit)},
    )


def _lifted(
    name: str,
    camera: Camera,
    other: str,
    model: MapModel,
    source: Source,
    settings: LocalizeSettings,
) -> tuple[WorldMatches | None, dict[str, Any]]:
    """2D–3D matches through one mapped image, and an entry about it for the report."""
    try:
        observed = model.observations(other)
        matches = source(name, other)
        _check_size(matches, name, camera)
    except InputError as error:
        return None, {"image": other, "skipped": str(error)}
    part = lift(matches, *observed, radius_px=settings.radius_px)
    return part, {"image": other, "matches": len(matches), "lifted": len(part)}


def _details(start: Estimate, refit: Refit) -> dict[str, Any]:
    return {
        "inliers": int(start.inliers.sum()),
        "effective_matches": float(refit.weight.sum()),
        "kept_initial_because": refit.reason,
        "initial": None if start.model is None else start.model.tolist(),
        "cam_from_world": None if refit.model is None else refit.model.tolist(),
        **_spread(refit.covariance),
    }


def _check_size(matches: Matches, name: str, camera: Camera) -> None:
    if matches.source_size != camera.size:
        width, height = matches.source_size
        raise InputError(
            f"The image {name} is {width} × {height} px, but its camera is for "
            f"{camera.width} × {camera.height} px. Give the intrinsics of the image as "
            "it is read, after EXIF rotation."
        )


def _spread(C: Matrix | None) -> dict[str, Any]:
    """Standard deviations of position and rotation, and the 6 × 6 covariance."""
    if C is None:
        return {"covariance": None}
    return {
        "position_std": float(np.sqrt(np.trace(C[3:, 3:]))),
        "rotation_std_deg": float(np.degrees(np.sqrt(np.trace(C[:3, :3])))),
        "covariance": C.tolist(),
    }

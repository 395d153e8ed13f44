"""The settings that decide what is found in a pair, and their recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from semisure.engine.fingerprint import fingerprint as process_fingerprint
from semisure.errors import FileError, InputError
from semisure.estimators.settings import RansacSettings
from semisure.geometry.camera import centred, focal_of
from semisure.geometry.epipolar import checked_intrinsics
from semisure.io.exif import focal_px
from semisure.io.files import calibration_document
from semisure.io.sources import digest, sources_of
from semisure.matchers import check_name, fingerprint
from semisure.pairs.models import Cameras
from semisure.refit import REFIT_METHODS, RefitMethod
from semisure.types import Calibration, Matrix3, as_choice
from semisure.types.checks import as_integer
from semisure.types.pair_records import Size

Geometry = Literal["auto", "homography", "fundamental", "essential", "none"]
GEOMETRIES: tuple[Geometry, ...] = get_args(Geometry)
_NOT_LIBRARIES = ("semisure", "python", "machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraSettings:
    """Where intrinsics come from; nowhere by default."""

    values: tuple[float, float, float, float] | None = None  # fx, fy, cx, cy, px
    fov_deg: float | None = None  # along the longer side
    exif: bool = False  # focal length from each file's EXIF

    def __post_init__(self) -> None:
        if sum((self.values is not None, self.fov_deg is not None, self.exif)) > 1:
            raise InputError("Intrinsics come from values, a field of view or EXIF.")
        if self.values is not None:
            _pinhole(self.values)  # raises now, not once a pair

    def cameras(
        self, files: tuple[Path, Path], sizes: tuple[Size, Size]
    ) -> Cameras | None:
        """Intrinsics of two images; None where they are not known."""
        if self.values is not None:
            K = _pinhole(self.values)
            return K, K
        if self.fov_deg is not None:
            degrees = self.fov_deg
            return _both(lambda k: centred(focal_of(degrees, sizes[k]), sizes[k]))
        if self.exif:
            try:
                return _both(lambda k: centred(focal_px(files[k], sizes[k]), sizes[k]))
            except FileError:  # no focal length: lines without intrinsics then
                return None
        return None


def _pinhole(values: tuple[float, float, float, float]) -> Matrix3:
    fx, fy, cx, cy = values
    K = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    return checked_intrinsics(K, "The camera")


def _both(camera: Callable[[int], Matrix3]) -> Cameras:
    return camera(0), camera(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """How each pair is matched and verified.

    >>> PairSettings(model="none").estimator
    'magsac++'
    """

    matcher: str = "daisy"
    max_side: int | None = None  # the matcher's own limit
    device: str | None = None
    weights: Path | None = None
    model: Geometry = "auto"  # "none": matches only
    estimator: str = "magsac++"
    method: RefitMethod = "core+"
    threshold_px: float = 3.0
    seed: int = 0
    intrinsics: CameraSettings = field(default_factory=CameraSettings)
    batch: int = 1  # pairs that a network sees together; answers differ by rounding

    def __post_init__(self) -> None:
        check_name(self.matcher)
        as_choice("model", self.model, GEOMETRIES)
        if as_integer("batch", self.batch) < 1:
            raise InputError(f"batch must be at least 1 pair, but is {self.batch}.")
        as_choice("method", self.method, REFIT_METHODS)
        if self.model == "essential" and self.intrinsics == CameraSettings():
            raise InputError(
                "A relative pose needs intrinsics: give them, a field of view, or "
                "take the focal length from EXIF."
            )

    def ransac(self) -> RansacSettings:
        return RansacSettings(threshold_px=self.threshold_px, seed=self.seed)

    def recipe(self, calibration: Calibration) -> dict[str, Any]:
        """All that decides a pair's answers besides its images."""
        known = process_fingerprint()
        return {
            "matcher": {
                "name": self.matcher,
                "max_side": self.max_side,
                "device": self.device,
                **fingerprint(self.matcher, self.weights),
            },
            "geometry": None if self.model == "none" else self._geometry(),
            "calibration": None if self.model == "none" else _document(calibration),
            "code": digest(sources_of("semisure.pairs.batch")),
            "libraries": {k: v for k, v in known.items() if k not in _NOT_LIBRARIES},
        }

    def _geometry(self) -> dict[str, Any]:
        cameras = self.intrinsics
        return {
            "model": self.model,
            "estimator": self.estimator,
            "method": self.method,
            "threshold_px": self.threshold_px,
            "seed": self.seed,
            "intrinsics": None if cameras.values is None else list(cameras.values),
            "fov_deg": cameras.fov_deg,
            "focal_from_exif": cameras.exif,
        }


def _document(calibration: Calibration) -> dict[str, Any]:
    document = calibration_document(calibration)
    del document["semisure_version"]  # the code says more
    return document

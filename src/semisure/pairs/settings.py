"""The settings that decide the result of a pair, and their recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from semisure.errors import FileError, InputError
from semisure.estimators.settings import RansacSettings
from semisure.io.cache import code_digest, libraries
from semisure.io.files import calibration_document
from semisure.io.intrinsics import intrinsics_of
from semisure.matchers import check_name, fingerprint
from semisure.refit.weights import REFIT_METHODS, RefitMethod
from semisure.types import Calibration, Matrix3, as_choice
from semisure.types.pair_records import Size

Geometry = Literal["auto", "homography", "fundamental", "essential", "none"]
GEOMETRIES: tuple[Geometry, ...] = get_args(Geometry)
_GEOMETRY = (  # settings that matter for models only
    *("model", "estimator", "method", "threshold_px", "seed"),
    *("intrinsics", "fov", "focal_from_exif"),
)


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
    threshold_px: float | None = None  # None: by the model, and the matches
    seed: int = 0
    intrinsics: str | tuple[float, float, float, float] | None = None  # fx, fy, cx, cy
    fov: float | None = None  # degrees along the longer side, instead
    focal_from_exif: bool = False  # of each file, instead

    def __post_init__(self) -> None:
        check_name(self.matcher)
        as_choice("model", self.model, GEOMETRIES)
        as_choice("method", self.method, REFIT_METHODS)
        K = intrinsics_of((1, 1), self.intrinsics, fov=self.fov, name="intrinsics")
        if self.intrinsics is not None and K is not None:  # text is read once
            four = float(K[0, 0]), float(K[1, 1]), float(K[0, 2]), float(K[1, 2])
            object.__setattr__(self, "intrinsics", four)
        if K is not None and self.focal_from_exif:
            raise InputError("Give intrinsics or the focal length of EXIF, not both.")
        if self.model == "essential" and K is None and not self.focal_from_exif:
            raise InputError(
                "A relative pose needs intrinsics: give them, a field of view, or "
                "take the focal length from EXIF."
            )

    def camera(self, size: Size, file: Path) -> Matrix3 | None:
        """Intrinsics of an image; None where they are not known."""
        exif_of = file if self.focal_from_exif else None
        try:
            return intrinsics_of(size, self.intrinsics, fov=self.fov, exif_of=exif_of)
        except FileError:  # no focal length: lines do without intrinsics
            return None

    def ransac(self) -> RansacSettings:
        return RansacSettings(threshold_px=self.threshold_px, seed=self.seed)

    def recipe(self, calibration: Calibration) -> dict[str, Any]:
        """All that decides a pair's result besides its images."""
        law = calibration_document(calibration)
        del law["semisure_version"]  # the digest of the code is more exact
        geometry = {name: getattr(self, name) for name in _GEOMETRY}
        return {
            "matcher": {
                "name": self.matcher,
                "max_side": self.max_side,
                "device": self.device,
                **fingerprint(self.matcher, self.weights),
            },
            "geometry": None if self.model == "none" else geometry,
            "calibration": None if self.model == "none" else law,
            "code": code_digest(),
            "libraries": dict(libraries()),
        }

"""From two images to calibrated matches and a model in one call."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from numpy.typing import ArrayLike

from semisure.calibrate.choice import FirstUse, calibration_for
from semisure.errors import InputError
from semisure.estimators import RansacSettings
from semisure.io.intrinsics import intrinsics_of
from semisure.io.pixels import ImageLike, as_image
from semisure.matchers import MATCHER_NAMES, NamedMatcher, Refine, refined_name
from semisure.pairs.estimation import match_pair
from semisure.pairs.models import Model
from semisure.pairs.result import PairResult
from semisure.refit.weights import REFIT_METHODS, RefitMethod
from semisure.types import Calibration, Matcher, RobustEstimator, as_choice
from semisure.types.display import Begin, quietly

if TYPE_CHECKING:
    from semisure.calibrate.photos import Photos, SelfCalibration

Intrinsics: TypeAlias = ArrayLike | str | PathLike[str]
Law: TypeAlias = Union[Calibration, "SelfCalibration", str, PathLike[str]]


def match(
    image0: ImageLike,
    image1: ImageLike,
    matcher: str | Matcher = "daisy",
    *,
    calibration: Law | None = None,
    model: Model = "auto",
    estimator: str | RobustEstimator = "magsac++",
    method: RefitMethod = "core+",
    threshold_px: float | None = None,
    seed: int = 0,
    K0: Intrinsics | None = None,
    K1: Intrinsics | None = None,
    fov: float | None = None,
    focal_from_exif: bool = False,
    max_side: int | None = None,
    refine: Refine | None = None,
    device: str | None = None,
    weights: str | PathLike[str] | None = None,
    calibrate: bool = True,
    photos: Photos | None = None,
    force: bool = False,
    model_error: float | None = None,
    begin: Begin = quietly,
) -> PairResult:
    """Match two images: an expected error for each match, and the model between them.

    Parameters
    ----------
    image0, image1
        Paths, PIL images, or arrays: (h, w) or (h, w, 3), uint8 or floats from 0 to 1,
        RGB (``cv2.imread`` gives BGR: ``image[:, :, ::-1]``).
    matcher
        A name (``semisure matchers`` lists them), or any callable of two images that
        returns :class:`~semisure.types.Matches`.
    calibration
        A name, a file, or an object; default: the matcher's own. A matcher without one
        is calibrated on first use, on `photos` (a folder or files; default: those of
        scikit-image), which takes minutes, unless ``calibrate=False``. `force` accepts
        the calibration of another matcher.
    model
        ``homography``, ``fundamental``, ``essential``, or ``auto``: the matches decide.
    estimator
        A name, or a callable of (source, target, confidence) that returns a model, or a
        model and a mask; `model` must then name its kind.
    threshold_px
        Inlier threshold of the estimator, a third of it for epipolar lines. Default: 3
        px; for relative poses by RANSAC or MAGSAC++, by the precision of the matches.
    K0, K1, fov, focal_from_exif
        Intrinsics in px, pixel centres at integers: a 3 × 3 array, a text file of one,
        or "fx,fy,cx,cy" (`K1` by default `K0`); or the field of view in degrees along
        the longer side; or, of files, the focal length in their EXIF tags.
    max_side, refine, device, weights
        Of a matcher given by name, as :func:`semisure.load_matcher` takes them.
    model_error
        Smallest error of the model itself (lens, relief) as a share of the image's
        diagonal: 0 for rendered images; default: the calibration's, for photographs.
    begin
        Called with the name of each stage; returns a callable of (done, total).

    Examples
    --------
    >>> import numpy as np
    >>> blobs = np.random.default_rng(0).normal(size=(30, 40))
    >>> image0 = np.uint8(128 + 40 * np.clip(blobs, -3, 3)).repeat(8, 0).repeat(8, 1)
    >>> result = match(image0, np.roll(image0, (9, 14), axis=(0, 1)))
    >>> result.kind, result.H_01[:2, 2].round().tolist()
    ('homography', [14.0, 9.0])
    """
    as_choice("method", method, REFIT_METHODS)
    settings = RansacSettings(threshold_px=threshold_px, seed=seed)
    images = as_image(image0, "image0"), as_image(image1, "image1")
    sizes = [(image.shape[1], image.shape[0]) for image in images]
    exif0, exif1 = (image0, image1) if focal_from_exif else (None, None)
    K0 = intrinsics_of(sizes[0], K0, fov=fov, exif_of=exif0, name="K0")
    K1 = intrinsics_of(sizes[1], K1, fov=fov, exif_of=exif1, name="K1")
    run = matcher_of(
        matcher, max_side=max_side, refine=refine, device=device, weights=weights
    )
    law = law_for(
        run,
        calibration,
        force=force,
        calibrate=calibrate,
        photos=photos,
        model_error=model_error,
        begin=begin,
    )
    begin("Matching")
    return match_pair(
        *images,
        run,
        law,
        model=model,
        estimator=estimator,
        method=method,
        settings=settings,
        K0=K0,
        K1=K1,
    )


def law_for(
    matcher: Matcher,
    calibration: Law | None = None,
    *,
    force: bool = False,
    calibrate: bool = True,
    photos: Photos | None = None,
    model_error: float | None = None,
    begin: Begin = quietly,
) -> Calibration:
    """The calibration of a matcher by the arguments of :func:`match`.

    A given calibration is checked before the matcher is loaded.
    """
    if calibration is None and isinstance(matcher, NamedMatcher):
        matcher = matcher.loaded()
    first_use = FirstUse(allowed=calibrate, photos=photos, begin=begin)
    law = calibration_for(matcher, calibration, force=force, first_use=first_use)
    return law if model_error is None else replace(law, model_error=model_error)


def matcher_of(
    matcher: str | Matcher,
    *,
    max_side: int | None = None,
    refine: Refine | None = None,
    device: str | None = None,
    weights: str | PathLike[str] | None = None,
) -> Matcher:
    """The matcher of that name, loaded when it is first called; or the callable."""
    options: dict[str, Any] = {
        "max_side": max_side,
        "refine": refine,
        "device": device,
        "weights": None if weights is None else Path(weights),
    }
    if isinstance(matcher, str):
        return NamedMatcher(refined_name(matcher, refine), **options)
    names = [name for name, value in options.items() if value is not None]
    if names:
        raise InputError(
            f"Only a matcher that is given by its name takes {' and '.join(names)}; "
            "set that where you make yours."
        )
    if not callable(matcher):
        raise InputError(
            f"matcher must be one of {', '.join(MATCHER_NAMES)}, or a callable of two "
            f"images, but is {matcher!r}."
        )
    return matcher

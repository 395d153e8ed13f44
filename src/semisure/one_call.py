"""Two images, by whatever name, to calibrated matches and a model: one call."""

from __future__ import annotations

from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from numpy.typing import ArrayLike

from semisure.calibrate.choice import FirstUse, calibration_for
from semisure.errors import InputError
from semisure.estimators import RansacSettings
from semisure.io.images import Image
from semisure.io.intrinsics import intrinsics_of
from semisure.io.pixels import ImageLike, as_image
from semisure.matchers import MATCHER_NAMES, checked_side, load_matcher
from semisure.pairs.estimation import match_pair
from semisure.pairs.models import MODELS, Model
from semisure.pairs.result import PairResult
from semisure.refit.weights import REFIT_METHODS, RefitMethod
from semisure.types import Calibration, Matcher, RobustEstimator, as_choice
from semisure.types.checks import did_you_mean

if TYPE_CHECKING:
    from semisure.calibrate.photos import Photos, SelfCalibration

Intrinsics: TypeAlias = ArrayLike | str | PathLike[str]
LOADED = 2  # matchers that stay in memory


def match(
    image0: ImageLike,
    image1: ImageLike,
    matcher: str | Matcher = "daisy",
    *,
    calibration: Calibration | SelfCalibration | str | PathLike[str] | None = None,
    model: Model = "auto",
    estimator: str | RobustEstimator = "magsac++",
    method: RefitMethod = "core+",
    threshold_px: float = 3.0,
    seed: int = 0,
    K0: Intrinsics | None = None,
    K1: Intrinsics | None = None,
    fov: float | None = None,
    focal_from_exif: bool = False,
    max_side: int | None = None,
    device: str | None = None,
    weights: str | PathLike[str] | None = None,
    calibrate: bool = True,
    photos: Photos | None = None,
    force: bool = False,
) -> PairResult:
    """Match two images: an expected error for each match, and the model they obey.

    Parameters
    ----------
    image0, image1
        Paths, arrays, or PIL images. Arrays are (h, w) or (h, w, 3) in RGB order,
        uint8, or floats from 0 to 1; those of ``cv2.imread`` are BGR:
        ``image[:, :, ::-1]``.
    matcher
        A name (``semisure matchers`` lists them), or any callable of two images that
        returns :class:`~semisure.types.Matches`.
    calibration
        A name, the path of a file, or an object. Default: the matcher's own. One that
        has none is calibrated on first use, which takes minutes once, on `photos` (a
        folder or files; default: those of scikit-image). ``calibrate=False`` raises
        instead. That of another matcher is refused without `force`.
    model
        ``homography``, ``fundamental``, ``essential``, or ``auto``: the matches decide.
    estimator
        A name, or a callable of (source, target, confidence) that returns the model,
        or a tuple of the model and a mask; `model` must then say of what kind it is.
    K0, K1, fov, focal_from_exif
        Intrinsics in px, pixel centres at integers: a 3 × 3 array or a text file of
        one, or "fx,fy,cx,cy"; without `K1`, `K0` is for both. Or the field of view in
        degrees along the longer side. Or, of files, the focal length that their EXIF
        tags state.
    max_side, device, weights
        Of a matcher given by name: larger images are reduced to this many px; a torch
        device; a file instead of the official weights.

    Examples
    --------
    >>> import numpy as np
    >>> blobs = np.random.default_rng(0).normal(size=(30, 40))
    >>> image0 = np.uint8(128 + 40 * np.clip(blobs, -3, 3)).repeat(8, 0).repeat(8, 1)
    >>> result = match(image0, np.roll(image0, (9, 14), axis=(0, 1)))
    >>> result.kind, result.H_01[:2, 2].round().tolist()
    ('homography', [14.0, 9.0])
    """
    as_choice("model", model, MODELS)
    as_choice("method", method, REFIT_METHODS)
    settings = RansacSettings(threshold_px=threshold_px, seed=seed)
    images = as_image(image0, "image0"), as_image(image1, "image1")
    files = (image0, image1) if focal_from_exif else (None, None)
    cameras = _cameras(images, K0, K1, fov, files)
    run = matcher_of(matcher, max_side=max_side, device=device, weights=weights)
    law = calibration_for(
        run,
        calibration,
        force=force,
        first_use=FirstUse(allowed=calibrate, photos=photos),
    )
    return match_pair(
        *images,
        run,
        law,
        model=model,
        estimator=estimator,
        method=method,
        settings=settings,
        K0=cameras[0],
        K1=cameras[1],
    )


def matcher_of(
    matcher: str | Matcher,
    *,
    max_side: int | None = None,
    device: str | None = None,
    weights: str | PathLike[str] | None = None,
) -> Matcher:
    """The matcher of that name, or the callable that was given.

    The last ones loaded stay in memory, so that calls in a loop load nothing.
    """
    if isinstance(matcher, str):
        as_choice("matcher", matcher, MATCHER_NAMES)
        file = None if weights is None else str(weights)
        side = None if max_side is None else checked_side(max_side)
        return _loaded(matcher, side, device, file, _state(file))
    options = {"max_side": max_side, "device": device, "weights": weights}
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(
            f"Only a matcher that is given by its name takes {' and '.join(given)}; "
            "set that where you make yours."
        )
    if not callable(matcher):
        raise InputError(
            f"matcher must be one of {', '.join(MATCHER_NAMES)}, or a callable of two "
            f"images, but is {matcher!r}.{did_you_mean(matcher, MATCHER_NAMES)}"
        )
    return matcher


@lru_cache(maxsize=LOADED)
def _loaded(
    name: str,
    max_side: int | None,
    device: str | None,
    weights: str | None,
    state: tuple[int, int] | None,
) -> Matcher:
    """A loaded matcher; `state` tells a weights file from what it was before."""
    return load_matcher(name, max_side=max_side, device=device, weights=weights)


def _state(file: str | None) -> tuple[int, int] | None:
    if file is None or not Path(file).is_file():  # the matcher says what is wrong
        return None
    status = Path(file).stat()
    return status.st_mtime_ns, status.st_size


def _cameras(
    images: tuple[Image, Image],
    K0: Intrinsics | None,
    K1: Intrinsics | None,
    fov: float | None,
    files: tuple[ImageLike | None, ImageLike | None],
) -> tuple[ArrayLike | None, ArrayLike | None]:
    """Intrinsics of both images, where they were given."""
    (h0, w0), (h1, w1) = images[0].shape[:2], images[1].shape[:2]
    first = intrinsics_of((w0, h0), K0, fov=fov, exif_of=files[0], name="K0")
    second = intrinsics_of((w1, h1), K1, fov=fov, exif_of=files[1], name="K1")
    return first, first if K1 is None and K0 is not None else second

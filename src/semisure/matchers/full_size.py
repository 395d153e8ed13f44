"""Matches refined on the full-size photos, whatever matcher found them.

Matchers use reduced images, so an error of 0.2 px there is more than a pixel of a
large photo. Here Newton steps on grey values sharpen each match, first on halves of
the photos, then on the photos' own pixels; where the first steps fail, a correlation
heat map looks around. Patches of the unrefined image are read through the linear map of
the neighbouring matches; brightness and contrast do not matter. A result that moves too
far, has not converged or correlates weakly is rejected: the one before it stays, or the
matcher's own, with its std.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from semisure.errors import InputError
from semisure.io.images import Image, as_grey
from semisure.matchers.daisy_cells import Array
from semisure.matchers.patches import (
    GreyModel,
    blocks,
    chunks,
    in_fractions,
    refine,
    sample,
    templates,
)
from semisure.types import Matches

BLUR = 0.8  # px of the photo, before anything is compared
TEMPLATE = 4.0  # px as the matcher saw them: half a template's side, on the photos
ROUGH_TEMPLATE = 5.0  # the same, on their halves
RADII = 12, 20  # px of a level: half a template's side at least and at most
BLOCKS = 16  # samples a side of a template, at most
STEPS, ROUGH_STEPS = 2, 4  # Newton steps after others, and the first ones
SEARCH_RADII = (8, 3)  # px of the coarsest level: template, search
MIN_LIKENESS = 0.6  # correlation below which two patches do not show the same
MAX_LAST_STEP = 0.25  # px of the level: a larger last step has not converged
SHARED_NOISE = 1.7  # px of the level: samples closer than this err alike
INTERPOLATION = 0.01  # px of the level: error of reading between pixels
MIN_LEVEL_SIDE = 64  # px: smaller levels show too little
NEIGHBOURS = 2.0  # cells: Gaussian radius of a neighbourhood of matches
RIDGE = 0.03  # squared cells, times a match: an isolated match has no slope
AGREE = 2.0  # cells within which a match is an inlier of the common map
# Each network's fine std for a refined std of 1 px, from shipped laws; else 1.
UNITS = {"xfeat-star": 0.85}


@dataclass(frozen=True, slots=True, kw_only=True)
class FullSize:
    """Refines the matches of any matcher on the photos themselves.

    Parameters
    ----------
    reach
        How far a match may be moved, in px as the matcher saw them: a few times its
        usual error.
    unit
        The matcher's fine std for one px of the refinement's own, so that refined
        matches have the same law as those that were rejected.

    Examples
    --------
    >>> noise = np.random.default_rng(0).integers(0, 256, (256, 256), np.uint8)
    >>> photo = cv2.GaussianBlur(noise, (0, 0), 3)
    >>> true = np.mgrid[40:220:30, 40:220:30].reshape(2, -1).T
    >>> n = len(true)
    >>> rough = Matches(
    ...     source=true, target=true + 1.5, confidence=np.ones(n),
    ...     fine_std=np.ones((n, 2)), coarse_std=np.full((n, 2), 9.0),
    ...     source_size=(256, 256), target_size=(256, 256))
    >>> fine = FullSize()(photo, photo, rough, reductions=(2.0, 2.0))
    >>> bool(np.median(np.abs(fine.target - true)) < 0.02)
    True
    """

    reach: float = 4.0
    unit: float = 1.0

    def __post_init__(self) -> None:
        if not (self.reach > 0 and self.unit > 0):
            raise InputError(
                f"reach and unit must be positive, but are {self.reach}, {self.unit}."
            )

    def __call__(
        self,
        image0: Array,
        image1: Array,
        matches: Matches,
        reductions: tuple[float, float],
    ) -> Matches:
        """The matches of two photos, refined on them.

        The photos are (h, w) or (h, w, 3) uint8, and `reductions` how many of their
        pixels made one of the matcher's.
        """
        greys = [as_grey(image) for image in (image0, image1)]
        sizes = [grey.shape[::-1] for grey in greys]
        if sizes != [matches.source_size, matches.target_size]:
            raise InputError(
                f"The photos must be those that the matches are in, of "
                f"{matches.source_size} and {matches.target_size} px, but are of "
                f"{sizes[0]} and {sizes[1]}."
            )
        if not min(reductions) >= 1:
            raise InputError(f"reductions must be at least 1, but are {reductions}.")
        points, stds = matches.refined.copy(), matches.fine_std.copy()
        for side in (0, 1):
            index = np.flatnonzero(matches.side == side)
            if len(index):
                part = matches.take(index)
                part = part if side else part.swapped()
                way = 1 if side else -1
                points[index], variance = refined_targets(
                    greys[::way], part, reductions[::way], self.reach
                )
                refined = np.isfinite(variance)
                deviation = self.unit * np.sqrt(variance)
                stds[index] = np.where(refined, deviation, part.fine_std)
        moved = matches.shifted(points - matches.refined)
        return replace(moved, fine_std=stds)


def refined_targets(
    greys: Sequence[Array], matches: Matches, reductions: Sequence[float], reach: float
) -> tuple[Array, Array]:
    """Targets and their variances (n, 2), infinite where no level was sound.

    From a level whose search covers `reach` down to the photos' own pixels. Where one
    photo shows the scene larger, it is halved until both show it alike.
    """
    source, target = matches.source, matches.target
    linear = scattered_linear(source, target)
    zoom = float(np.median(np.sqrt(np.abs(np.linalg.det(linear)))))
    halvings = round(np.log2(zoom))
    extra = max(-halvings, 0), max(halvings, 0)
    own = max(reductions[1], zoom * reductions[0])  # px of photo 1 per matcher px
    covered = SEARCH_RADII[1] * 2 ** extra[1]
    top = max(int(np.ceil(np.log2(reach * own / covered))), 0)
    small = min(min(grey.shape) / 2**e for grey, e in zip(greys, extra, strict=True))
    top = min(top, max(int(np.log2(small / MIN_LEVEL_SIDE)), 0))
    pyramids = [_pyramid(g, top + more) for g, more in zip(greys, extra, strict=True)]

    def level_of(height: int) -> Level:
        images = [p[height + more] for p, more in zip(pyramids, extra, strict=True)]
        scale0, scale1 = (2 ** (height + more) for more in extra)
        template = ROUGH_TEMPLATE if height else TEMPLATE
        radius = int(np.clip(round(template * own / scale1), *RADII))
        return Level([in_fractions(i) for i in images], scale0, scale1, radius)

    first = max(top - 1, 0)
    best, variance = target.copy(), np.full_like(target, np.inf)
    for height in range(first, -1, -1):
        level = level_of(height)
        if height != first:
            linear = scattered_linear(source, best)
        steps = ROUGH_STEPS if height or height == first else STEPS
        moved, spread, sound = level.compare(source, best, linear, steps)
        sound &= _near(moved, target, reach * own)
        if height == first:
            lost = np.flatnonzero(~sound)
            peaks = level_of(top).search(source[lost], target[lost], linear[lost])
            again = level.compare(source[lost], peaks, linear[lost], steps)
            moved[lost], spread[lost], sound[lost] = again
            sound[lost] &= _near(moved[lost], target[lost], reach * own)
        # A finer level that is less sure, as in a blurred photo, adds nothing.
        better = sound & (spread.sum(1) < variance.sum(1))
        best[better], variance[better] = moved[better], spread[better]
    return best, variance


def _near(points: Array, others: Array, farthest: float) -> Array:
    return np.asarray(np.abs(points - others).max(axis=1) < farthest)


def _pyramid(grey: Array, halvings: int) -> list[Array]:
    """The photo, blurred, and its halves: pixel k of each is pixel 2k of the last."""
    images = [np.asarray(cv2.GaussianBlur(grey, (3, 3), BLUR))]
    for _ in range(halvings):
        images.append(np.asarray(cv2.pyrDown(images[-1])))
    return images


@dataclass(frozen=True, slots=True)
class Level:
    """Both photos, reduced so that they show about the same detail."""

    images: list[Array]  # in fractions of grey levels
    scale0: int  # px of photo 0 in one of the level
    scale1: int
    radius: int  # px of the level: half the side of a template

    def compare(
        self, source: Array, target: Array, linear: Array, steps: int
    ) -> tuple[Array, Array, Array]:
        """Targets after Newton steps, variances (n, 2), and which are sound: (n,).

        Those that are alike, have converged and lie inside both photos.
        """
        source, target = source / self.scale0, target / self.scale1
        back = _inverse(linear * (self.scale0 / self.scale1))
        variance = np.empty_like(target)
        likeness, last = np.empty(len(target)), np.empty(len(target))
        count = min(self.radius, BLOCKS)  # samples a side, two pixels or more apart
        centres, pixels = blocks(self.radius, count)

        def work(k: slice) -> None:
            read = templates(self.images[0], source[k], back[k], pixels)
            model = GreyModel.of_blocks(read)
            for _ in range(steps):
                scene = sample(self.images[1], target[k], centres)
                shift, likeness[k], variance[k] = model.step(scene)
                target[k] += shift
            last[k] = np.abs(shift).max(axis=1)

        chunks(work, len(target))
        sound = (likeness > MIN_LIKENESS) & (last < MAX_LAST_STEP)
        sound &= self._inside(0, source) & self._inside(1, target)
        # How many samples are worth one: the four next to it share its noise.
        apart = 2 * self.radius / count
        alike = 1 + 4 * float(np.exp(-((apart / SHARED_NOISE) ** 2)))
        variance = (alike * variance + INTERPOLATION**2) * self.scale1**2
        return target * self.scale1, variance, sound

    def search(self, source: Array, target: Array, linear: Array) -> Array:
        """Targets at the peaks of correlation heat maps."""
        source, target = source / self.scale0, target / self.scale1
        back = _inverse(linear * (self.scale0 / self.scale1))
        return refine(self.images, source, target, back, SEARCH_RADII)[0] * self.scale1

    def _inside(self, side: int, points: Array) -> Array:
        """Which points have most of a template around them."""
        height, width = self.images[side].shape
        margin = self.radius / 2
        end = [width - 1 - margin, height - 1 - margin]
        return np.asarray(((points >= margin) & (points <= end)).all(axis=1))


def _inverse(maps: Array) -> Array:
    """Inverses (n, 2, 2): faster than LAPACK, one by one."""
    adjugate = np.stack([maps[:, 1, 1], -maps[:, 0, 1], -maps[:, 1, 0], maps[:, 0, 0]])
    return (adjugate / np.linalg.det(maps)).T.reshape(-1, 2, 2)


# ---- local maps from neighbouring matches --------------------------------------------


def scattered_linear(source: Array, target: Array) -> Array:
    """The linear map (n, 2, 2) around each match, of planes through its neighbours.

    Points may lie anywhere. The residuals of the robust affine map of all matches are
    fitted, so that a match with few neighbours has that map. Matches that do not follow
    their neighbours count little.
    """
    if not len(source):
        return np.zeros((0, 2, 2))
    spacing = _spacing(source)
    affine = _of_all(source, target, spacing)
    rest = (target - source @ affine[:, :2].T - affine[:, 2]) / spacing
    at = source / spacing
    cell = np.floor(at - at.min(axis=0)).astype(int)
    cols, rows = cell.max(axis=0) + 1
    index = cell[:, 1] * cols + cell[:, 0]
    line = np.column_stack([np.ones(len(at)), at - at.mean(axis=0)])
    weight = 1 / (1 + (rest**2).sum(axis=1) / AGREE**2) ** 2
    for _ in range(2):
        plane = _planes(line, rest, weight, index, (rows, cols))[index]
        residual = rest - np.einsum("ni,nij->nj", line, plane)
        weight = 1 / (1 + (residual**2).sum(axis=1)) ** 2
    linear = affine[:, :2] + plane[:, 1:].swapaxes(1, 2)
    folded = np.linalg.det(linear) < 0.1 * abs(np.linalg.det(affine[:, :2]))
    linear[folded] = affine[:, :2]
    return linear


def _spacing(points: Array) -> float:
    """About the distance of neighbouring points, px: the side of a cell."""
    width, height = np.ptp(points, axis=0) + 1.0
    return float(np.sqrt(width * height / len(points)))


def _of_all(source: Array, target: Array, spacing: float) -> Array:
    """The affine map (2, 3) with most inliers; a shift where none is found."""
    affine = None
    if len(source) >= 3:
        zoom = np.median(np.std(target, axis=0) / np.maximum(np.std(source, axis=0), 1))
        within = AGREE * spacing * max(float(zoom), 0.1)
        affine = cv2.estimateAffine2D(
            source, target, ransacReprojThreshold=within, maxIters=500
        )[0]
    if affine is None or np.linalg.det(affine[:, :2]) < 1e-3:
        shift = np.median(target - source, axis=0)
        return np.column_stack([np.eye(2), shift])
    return np.asarray(affine)


def _planes(
    line: Array, values: Array, weight: Array, index: Array, shape: tuple[int, int]
) -> Array:
    """Weighted least-squares planes (cells, 3, 2) of the values around each cell."""
    both = np.concatenate([line, values], axis=1)
    terms = (weight[:, None, None] * line[:, :, None] * both[:, None, :]).reshape(
        -1, 15
    )
    count = shape[0] * shape[1]
    sums = (np.bincount(index, term, count).reshape(shape) for term in terms.T)
    smooth = [cv2.GaussianBlur(part, (0, 0), NEIGHBOURS) for part in sums]
    normal = np.stack(smooth, axis=-1).reshape(count, 3, 5)
    ridge = np.diag([0.0, RIDGE, RIDGE]) + 1e-9 * np.eye(3)
    return np.asarray(np.linalg.solve(normal[:, :, :3] + ridge, normal[:, :, 3:]))


# ---- networks that are refined -------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """`network`, and its matches refined on photos of any size.

    Photos that the network saw unreduced are refined too: networks round to a fraction
    of their cells, grey values do not.
    """

    network: Any

    @property
    def refinement(self) -> FullSize:
        """Its settings, with the network's own unit."""
        return FullSize(unit=UNITS.get(self.network.name, 1.0))

    @property
    def name(self) -> str:
        """The network's name, and that it is refined."""
        return f"{self.network.name}+full"

    @property
    def weights(self) -> Path | None:
        """A file that the network uses instead of the official weights."""
        own: Path | None = self.network.weights
        return own

    def __call__(self, image0: Image, image1: Image) -> Matches:
        limit = self.network.max_side or np.inf
        # How many px of each photo made one of the network's.
        scales = [max(max(i.shape[:2]) / limit, 1.0) for i in (image0, image1)]
        matches = self.network(image0, image1)
        return self.refinement(image0, image1, matches, (scales[0], scales[1]))

"""Matches refined on the full-size photos, whatever matcher found them.

Matchers look at reduced images, so an error of 0.2 px there is more than a pixel of a
large photo. Here Newton steps on grey values sharpen each match, first on halves of
the photos, then on the photos' own pixels; where the first steps fail, a correlation
heat map looks around. Patches of the unrefined image are read through the linear map of
the neighbouring matches; brightness and contrast do not matter. An answer that wanders,
has not converged or resembles nothing is refused: the one before it stays, and at last
the matcher's own, with its std.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from semisure.types import Matcher, Matches

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
CHUNK = 256  # matches at a time: templates are larger than the matcher's
MIN_LEVEL_SIDE = 64  # px: smaller levels show too little
NEIGHBOURS = 2.0  # cells: Gaussian radius of a neighbourhood of matches
RIDGE = 0.03  # squared cells, times a match: a lonely match has no slope of its own
AGREE = 2.0  # cells within which a match follows the map of all
# What a refined std of 1 px is in each network's own: from shipped laws, else 1.
UNITS = {"xfeat-star": 0.85}

Pyramid = list[Array]


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
        matches obey the same law as those that were refused.

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
        for name in ("reach", "unit"):
            if not getattr(self, name) > 0:
                raise InputError(
                    f"{name} must be positive, but is {getattr(self, name)}."
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
        sizes = matches.source_size, matches.target_size
        for k, (grey, size) in enumerate(zip(greys, sizes, strict=True)):
            if grey.shape[::-1] != size:
                raise InputError(
                    f"image{k} must be the photo that the matches are in, of {size} "
                    f"px, but has {grey.shape[::-1]}."
                )
        if not min(reductions) >= 1:
            raise InputError(f"reductions must be at least 1, but are {reductions}.")
        points, stds = matches.refined.copy(), matches.fine_std.copy()
        for side in (0, 1):
            index = np.flatnonzero(matches.side == side)
            if len(index):
                part = matches.take(index)
                part = part if side else part.swapped()
                order = (0, 1) if side else (1, 0)
                seen = reductions[order[0]], reductions[order[1]]
                pair = [greys[k] for k in order]
                points[index], stds[index] = self._refined(pair, part, seen)
        moved = matches.shifted(points - matches.refined)
        return replace(moved, fine_std=stds)

    def _refined(
        self, greys: Sequence[Array], matches: Matches, seen: tuple[float, float]
    ) -> tuple[Array, Array]:
        """Targets and their stds (n, 2), refined where that succeeded."""
        source, target = matches.source, matches.target
        linear = scattered_linear(source, target)
        plan = plan_levels(greys, linear, seen, self.reach)
        farthest = self.reach * plan.seen
        best, variance = target.copy(), np.full_like(target, np.inf)
        for step, level in enumerate(plan):
            if step:
                linear = scattered_linear(source, best)
            found = level.compare(source, best, linear).within(target, farthest)
            if not step:
                lost = np.flatnonzero(~found.sound)
                there = plan.search(source[lost], target[lost], linear[lost])
                again = level.compare(source[lost], there, linear[lost])
                found.put(lost, again.within(target[lost], farthest))
            # A finer level that is less sure, as in a blurred photo, adds nothing.
            better = found.sound & (found.variance.sum(1) < variance.sum(1))
            best[better] = found.target[better]
            variance[better] = found.variance[better]
        refined = np.isfinite(variance)
        stds = np.where(refined, self.unit * np.sqrt(variance), matches.fine_std)
        return best, stds


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one level says of each match, in the photo's pixels."""

    target: Array  # (n, 2)
    variance: Array  # (n, 2)
    sound: Array  # (n,) alike, converged and inside both photos

    def within(self, target: Array, farthest: float) -> Found:
        """The same, sound only where it is not far from `target`."""
        near = np.abs(self.target - target).max(axis=1) < farthest
        return replace(self, sound=self.sound & near)

    def put(self, index: Array, other: Found) -> None:
        """Write over the matches `index` what `other` says of them."""
        self.target[index], self.variance[index] = other.target, other.variance
        self.sound[index] = other.sound


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Both photos, reduced so that they show about the same detail."""

    images: list[Array]
    scales: tuple[int, int]  # px of each photo in one of the level
    radius: int  # px of the level: half the side of a template
    steps: int

    def compare(self, source: Array, target: Array, linear: Array) -> Found:
        """Targets after Newton steps on grey values."""
        scale0, scale1 = self.scales
        source, target = source / scale0, target / scale1
        linear = linear * (scale0 / scale1)
        target, likeness, variance, last = self._stepped(source, target, linear)
        sound = (likeness > MIN_LIKENESS) & (last < MAX_LAST_STEP)
        sound &= self._inside(0, source) & self._inside(1, target)
        variance = (self._alike() * variance + INTERPOLATION**2) * scale1**2
        return Found(target=target * scale1, variance=variance, sound=sound)

    @property
    def _blocks(self) -> int:
        """How many samples a side of a template has, two pixels or more apart."""
        return min(self.radius, BLOCKS)

    def _alike(self) -> float:
        """How many samples are worth one: the four next to it share its noise."""
        apart = 2 * self.radius / self._blocks
        return 1 + 4 * float(np.exp(-((apart / SHARED_NOISE) ** 2)))

    def _stepped(
        self, source: Array, target: Array, linear: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Targets, their likeness, variances (n, 2), and how long the last step was."""
        target, variance = target.copy(), np.empty_like(target)
        likeness, last = np.empty(len(target)), np.empty(len(target))
        centres, pixels = blocks(self.radius, self._blocks)
        back = _inverse(linear)

        def work(k: slice) -> None:
            read = templates(self.images[0], source[k], back[k], pixels)
            model = GreyModel.of_blocks(read)
            for _ in range(self.steps):
                scene = sample(self.images[1], target[k], centres)
                shift, likeness[k], variance[k] = model.step(scene)
                target[k] += shift
            last[k] = np.abs(shift).max(axis=1)

        chunks(work, len(target), CHUNK)
        return target, likeness, variance, last

    def _inside(self, side: int, points: Array) -> Array:
        """Which points have most of a template around them."""
        height, width = self.images[side].shape
        margin = self.radius / 2
        return np.asarray(
            (
                (points >= margin)
                & (points <= [width - 1 - margin, height - 1 - margin])
            ).all(axis=1)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The levels to compare photos at, coarse to fine."""

    pyramids: tuple[Pyramid, Pyramid]
    extra: tuple[int, int]  # halvings that make the photos equally detailed
    top: int  # level of the search
    seen: float  # px of photo 1 in one that the matcher saw

    def __iter__(self) -> Iterator[Level]:
        """Halves finer than the search's level, the finest last, then the photos."""
        for level in range(self.top - 1, 0, -1):
            yield self._level(level, ROUGH_TEMPLATE, ROUGH_STEPS)
        first = self.top <= 1
        yield self._level(0, TEMPLATE, ROUGH_STEPS if first else STEPS)

    def _level(self, level: int, template: float, steps: int) -> Level:
        scale0, scale1 = (2 ** (level + more) for more in self.extra)
        radius = int(np.clip(round(template * self.seen / scale1), *RADII))
        return Level(
            images=self._images(level),
            scales=(scale0, scale1),
            radius=radius,
            steps=steps,
        )

    def _images(self, level: int) -> list[Array]:
        """Both photos at a level, in fractions of grey levels."""
        pair = zip(self.pyramids, self.extra, strict=True)
        return [in_fractions(pyramid[level + more]) for pyramid, more in pair]

    def search(self, source: Array, target: Array, linear: Array) -> Array:
        """Targets at the peaks of correlation heat maps on the coarsest level."""
        scale0, scale1 = (2 ** (self.top + more) for more in self.extra)
        moved, _ = refine(
            self._images(self.top),
            source / scale0,
            target / scale1,
            _inverse(linear * (scale0 / scale1)),
            SEARCH_RADII,
        )
        return moved * scale1


def _inverse(maps: Array) -> Array:
    """Inverses (n, 2, 2): faster than LAPACK, one by one."""
    adjugate = np.stack([maps[:, 1, 1], -maps[:, 0, 1], -maps[:, 1, 0], maps[:, 0, 0]])
    return (adjugate / np.linalg.det(maps)).T.reshape(-1, 2, 2)


def plan_levels(
    greys: Sequence[Array], linear: Array, seen: tuple[float, float], reach: float
) -> Plan:
    """Levels from one whose search covers `reach` down to the photos' own pixels.

    Where one photo shows the scene larger, it is halved until both show it alike.
    """
    zoom = float(np.median(np.sqrt(np.abs(np.linalg.det(linear)))))
    halvings = round(np.log2(zoom))
    extra = max(-halvings, 0), max(halvings, 0)
    own = max(seen[1], zoom * seen[0])
    covered = SEARCH_RADII[1] * 2 ** extra[1]
    top = max(int(np.ceil(np.log2(reach * own / covered))), 0)
    small = min(min(grey.shape) / 2**e for grey, e in zip(greys, extra, strict=True))
    top = min(top, max(int(np.log2(small / MIN_LEVEL_SIDE)), 0))
    pyramids = _pyramid(greys[0], top + extra[0]), _pyramid(greys[1], top + extra[1])
    return Plan(pyramids=pyramids, extra=extra, top=top, seen=own)


def _pyramid(grey: Array, halvings: int) -> Pyramid:
    """The photo, blurred, and its halves: pixel k of each is pixel 2k of the last."""
    images = [np.asarray(cv2.GaussianBlur(grey, (3, 3), BLUR))]
    for _ in range(halvings):
        images.append(np.asarray(cv2.pyrDown(images[-1])))
    return images


# ---- local maps from neighbouring matches --------------------------------------------


def scattered_linear(source: Array, target: Array) -> Array:
    """The linear map (n, 2, 2) around each match, of planes through its neighbours.

    Points may lie anywhere. What the robust affine map of all matches leaves over is
    fitted, so that a match with few neighbours has that map. Matches that do not follow
    their neighbours count little.
    """
    if not len(source):
        return np.zeros((0, 2, 2))
    spacing = _spacing(source)
    affine = _of_all(source, target, spacing)
    left = (target - source @ affine[:, :2].T - affine[:, 2]) / spacing
    at = source / spacing
    cell = np.floor(at - at.min(axis=0)).astype(int)
    cols, rows = cell.max(axis=0) + 1
    index = cell[:, 1] * cols + cell[:, 0]
    line = np.column_stack([np.ones(len(at)), at - at.mean(axis=0)])
    weight = 1 / (1 + (left**2).sum(axis=1) / AGREE**2) ** 2
    for _ in range(2):
        plane = _planes(line, left, weight, index, (rows, cols))[index]
        residual = left - np.einsum("ni,nij->nj", line, plane)
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
    """The affine map (2, 3) that most matches obey; a shift where none is found."""
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
    """`network`, and what it found refined on photos of any size.

    Photos that the network saw unreduced are refined too: networks round to a fraction
    of their cells, grey values do not.
    """

    network: Any
    refinement: FullSize

    @classmethod
    def of(cls, network: Matcher, name: str) -> Refined:
        """The network called `name`, refined by the usual settings."""
        return cls(network=network, refinement=FullSize(unit=UNITS.get(name, 1.0)))

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
        seen = self._reduction(image0), self._reduction(image1)
        return self.refinement(image0, image1, self.network(image0, image1), seen)

    def _reduction(self, image: Image) -> float:
        """How many px of the image's side made one of the network's."""
        longest = max(image.shape[:2])
        limit = self.network.max_side or longest
        return float(np.maximum(longest / limit, 1.0))

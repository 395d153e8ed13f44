"""The pairs of `benchmarks/honest.py`, with their truth, matched once and kept on disk.

Photos are shuffled and halved: constants are chosen on the first half, and what is
printed is judged on the second. A truth is where the corners of image 0 lie in image 1:
with a lens or relief no homography puts all points where they are, but each point is
somewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from semisure.calibrate.random_views import DEFAULT_WARPS, WarpSettings, random_pair
from semisure.datasets.homographies import read_sequences
from semisure.datasets.posed import PosedPair, read_posed
from semisure.geometry import homography as plane
from semisure.io.files import load_arrays, matches_from, save_matches
from semisure.io.images import Image, find_images, read_image, reduced
from semisure.matchers import load_matcher
from semisure.types import Matches, Matrix3, Points

SEED = 777
SIFT_RATIO, SIFT_INLIERS = 0.8, 100
PHOTO_SIDE = 640
HARD_WARPS = WarpSettings(rotation_deg=35.0, log_zoom=0.5, corner_shift=0.3)
MAX_DISTORTION = 0.01  # of the half-diagonal at its end: what cheap lenses do
RELIEF = 0.0005, 0.004  # root mean square, in diagonals
WORDS = ("lorem", "ipsum", "dolor", "sit", "amet", "vita", "nova", "terra", "luna")

Half = Literal["first", "second"]
Bend = Callable[[Points], Points]  # from a pixel to where a pinhole would see it


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Two images, and where the corners of the first lie in the second."""

    kind: str
    name: str
    make: Callable[[], tuple[Image, Image, Points | None]]  # None: nowhere


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Matched:
    """A case with its matches."""

    case: Case
    matches: Matches
    corners: Points | None

    def truth(self) -> Matrix3 | None:
        """The homography that takes the corners to their true places."""
        if self.corners is None:
            return None
        frame = plane.corners(self.matches.source_size)
        return plane.weighted_dlt(frame, self.corners, np.ones(4))

    def corner_error(self, H_01: Points | None) -> float:
        """Mean distance of the corners from their true places, px."""
        if H_01 is None or self.corners is None:
            return float("inf")
        there = plane.project(H_01, plane.corners(self.matches.source_size))
        mean = float(np.linalg.norm(there - self.corners, axis=1).mean())
        return mean if np.isfinite(mean) else float("inf")


def matched(matcher: str, cases: Iterator[Case], cache: Path) -> Iterator[Matched]:
    run = None
    cache.mkdir(parents=True, exist_ok=True)
    for case in cases:
        path = cache / f"{matcher}__{case.kind}__{case.name}.npz"
        if not path.exists():
            run = run or load_matcher(matcher)
            image0, image1, there = case.make()
            corners = np.zeros((0, 2)) if there is None else there
            save_matches(run(image0, image1), path, true_corners=corners)
        arrays = load_arrays(path)
        corners = arrays["true_corners"]
        yield Matched(
            case=case,
            matches=matches_from(arrays, path),
            corners=corners if len(corners) else None,
        )


def published(data: Path) -> Iterator[Case]:
    for folder in ("homography", "thermal"):
        for pair in read_sequences(data / folder):
            assert pair.H_01 is not None
            make = partial(_read, pair.image0, pair.image1, pair.H_01)
            yield Case(kind=folder, name=pair.name, make=make)


def _read(first: Path, second: Path, H_01: Points) -> tuple[Image, Image, Points]:
    images = read_image(first), read_image(second)
    size = images[0].shape[1], images[0].shape[0]
    return *images, plane.project(H_01, plane.corners(size))


def views(data: Path, half: Half, count: int) -> Iterator[Case]:
    """Random views with exact truth; the same through a lens, and of a surface."""
    photos = _half(data, half)
    for i in range(count):
        for kind in ("views", "views, lens", "views, relief"):
            make = partial(_view, photos[i % len(photos)], kind, [SEED, i])
            yield Case(kind=kind, name=f"{half}-{i}", make=make)


def related(data: Path, half: Half, count: int) -> Iterator[Case]:
    """Views of one photo: half of them usual, half far apart; lenses and relief too."""
    photos = _half(data, half)
    kinds = "views", "views, lens", "views, relief"
    for i in range(count):
        warps = HARD_WARPS if i % 2 else DEFAULT_WARPS
        seed = [SEED + 1, half == "second", i]
        make = partial(_view, photos[i % len(photos)], kinds[i % 3], seed, warps)
        yield Case(kind="related", name=f"{half}-{i}", make=make)


def unrelated(data: Path, half: Half, count: int) -> Iterator[Case]:
    photos = _half(data, half)
    rng = np.random.default_rng([SEED, half == "second"])
    for i in range(count):
        a, b = rng.choice(len(photos), 2, replace=False)
        make = partial(_strangers, photos[a], photos[b])
        yield Case(kind="unrelated", name=f"{half}-{i}", make=make)


def self_similar(data: Path, half: Half, count: int) -> Iterator[Case]:
    """Images that look alike and show different things, and views of such images.

    In turn: the two halves of a photo that has the most repeated structure; walls of
    one tile, each tile a little different; pages of text; views of one such wall, whose
    truth is known but easily missed by a tile.
    """
    photos = [p for p in _half(data, half) if p.stem.startswith(("urban", "bsds"))]
    facades = [p for p in photos if p.stem.startswith("urban")] or photos
    for i in range(count):
        rng_seed = [SEED + 2, half == "second", i]
        make: Callable[[], tuple[Image, Image, Points | None]]
        if i % 4 == 0:
            pool = facades if i % 8 == 0 else photos
            make = partial(_halves, pool[(i // 8) % len(pool)], rng_seed)
        elif i % 4 == 1:
            make = partial(_walls, photos[i % len(photos)], rng_seed)
        elif i % 4 == 2:
            make = partial(_pages, rng_seed)
        else:
            make = partial(_one_wall, photos[i % len(photos)], rng_seed)
        yield Case(kind="self-similar", name=f"{half}-{i}", make=make)


def _half(data: Path, half: Half) -> list[Path]:
    photos = find_images(data / "photos")
    order = np.random.default_rng(SEED).permutation(len(photos))
    middle = len(photos) // 2
    chosen = order[:middle] if half == "first" else order[middle:]
    return [photos[i] for i in chosen]


def _view(
    photo: Path, kind: str, seed: list[int], warps: WarpSettings = DEFAULT_WARPS
) -> tuple[Image, Image, Points]:
    rng = np.random.default_rng(seed)
    image = reduced(read_image(photo), PHOTO_SIDE)
    image0, image1, H_01 = random_pair(image, rng, warps)
    size = image.shape[1], image.shape[0]
    bends = _bends(kind, size, rng)
    ideal = bends[0](plane.corners(size))
    there = _unbent(bends[1], plane.project(H_01, ideal))
    return _bent(image0, bends[0]), _bent(image1, bends[1]), there


def _bends(
    kind: str, size: tuple[int, int], rng: np.random.Generator
) -> tuple[Bend, Bend]:
    if kind == "views, lens":
        lens = partial(_lens, size=size, strength=MAX_DISTORTION * rng.uniform(-1, 1))
        return lens, lens
    if kind == "views, relief":
        return _straight, _random_relief(size, rng)
    return _straight, _straight


def _straight(points: Points) -> Points:
    return points


def _lens(points: Points, *, size: tuple[int, int], strength: float) -> Points:
    middle = (np.array(size) - 1) / 2
    off = (points - middle) / (np.hypot(*size) / 2)
    return points + strength * (off**2).sum(axis=-1, keepdims=True) * (points - middle)


def _random_relief(size: tuple[int, int], rng: np.random.Generator) -> Bend:
    """Parallax in one direction, by a smooth random height."""
    angle = rng.uniform(0, 2 * np.pi)
    waves = rng.normal(0.0, 1.0, (6, 2)) * 2 * np.pi / max(size)
    phases = rng.uniform(0, 2 * np.pi, 6)
    height = rng.uniform(*RELIEF) * np.hypot(*size) / np.sqrt(3)
    direction = height * np.array([np.cos(angle), np.sin(angle)])

    def bend(points: Points) -> Points:
        return points + np.sin(points @ waves.T + phases).sum(-1)[..., None] * direction

    return bend


def _unbent(bend: Bend, ideal: Points) -> Points:
    """The pixels that `bend` takes to `ideal`, by iteration: bends are small."""
    points = ideal
    for _ in range(30):
        points = points - (bend(points) - ideal)
    return points


def _bent(image: Image, bend: Bend) -> Image:
    if bend is _straight:
        return image
    height, width = image.shape[:2]
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1)
    at = bend(grid.astype(np.float64)).astype(np.float32)
    return np.asarray(cv2.remap(image, at[..., 0], at[..., 1], cv2.INTER_CUBIC))


def _strangers(first: Path, second: Path) -> tuple[Image, Image, None]:
    return (
        reduced(read_image(first), PHOTO_SIDE),
        reduced(read_image(second), PHOTO_SIDE),
        None,
    )


def _halves(photo: Path, seed: list[int]) -> tuple[Image, Image, None]:
    rng = np.random.default_rng(seed)
    image = reduced(read_image(photo), PHOTO_SIDE)
    if image.shape[0] > image.shape[1]:
        image = image.swapaxes(0, 1)
    middle = image.shape[1] // 2
    mild = WarpSettings(rotation_deg=4.0, log_zoom=0.05, corner_shift=0.05)
    left = random_pair(np.ascontiguousarray(image[:, :middle]), rng, mild)[0]
    right = random_pair(np.ascontiguousarray(image[:, middle:]), rng, mild)[1]
    return left, right, None


def _wall(tile: Image, rng: np.random.Generator) -> Image:
    """Rows of one tile, each in a light of its own, with grain that none shares."""
    side = tile.shape[0]
    rows, columns = -(-400 // side), -(-560 // side)
    light = rng.normal(1.0, 0.06, (rows, columns)).repeat(side, 0).repeat(side, 1)
    wall = np.tile(tile, (rows, columns, 1)) * light[..., None]
    wall = wall + rng.normal(0.0, 6.0, wall.shape)
    return np.clip(wall[:400, :560], 0, 255).astype(np.uint8)


def _tile(photo: Path, rng: np.random.Generator) -> Image:
    image = reduced(read_image(photo), PHOTO_SIDE)
    if image.ndim == 2:
        image = np.repeat(image[..., None], 3, axis=2)
    side = int(rng.integers(40, 110))
    y, x = (int(rng.integers(0, n - side)) for n in image.shape[:2])
    return image[y : y + side, x : x + side]


def _walls(photo: Path, seed: list[int]) -> tuple[Image, Image, None]:
    rng = np.random.default_rng(seed)
    tile = _tile(photo, rng)
    mild = WarpSettings(rotation_deg=4.0, log_zoom=0.05, corner_shift=0.05)
    first = random_pair(_wall(tile, rng), rng, mild)[0]
    return first, random_pair(_wall(tile, rng), rng, mild)[1], None


def _one_wall(photo: Path, seed: list[int]) -> tuple[Image, Image, Points]:
    rng = np.random.default_rng(seed)
    wall = _wall(_tile(photo, rng), rng)
    image0, image1, H_01 = random_pair(wall, rng)
    size = wall.shape[1], wall.shape[0]
    return image0, image1, plane.project(H_01, plane.corners(size))


def _pages(seed: list[int]) -> tuple[Image, Image, None]:
    rng = np.random.default_rng(seed)
    mild = WarpSettings(rotation_deg=4.0, log_zoom=0.05, corner_shift=0.05)
    size = float(rng.uniform(0.5, 1.0))
    first = random_pair(_page(rng, size), rng, mild)[0]
    return first, random_pair(_page(rng, size), rng, mild)[1], None


def _page(rng: np.random.Generator, size: float) -> Image:
    page = np.full((400, 560, 3), 235, np.uint8)
    for y in range(30, 400, int(44 * size)):
        text = " ".join(rng.choice(WORDS, 14))
        font = cv2.FONT_HERSHEY_COMPLEX
        cv2.putText(page, text, (15, y), font, size, (30, 30, 30), 1, cv2.LINE_AA)
    return page


def sift_homography(first: Image, second: Image) -> Matrix3 | None:
    """A homography by SIFT and MAGSAC, or None where few matches agree."""
    sift, points, descriptors = cv2.SIFT.create(8000), [], []
    for image in (first, second):
        gray = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        keypoints, described = sift.detectAndCompute(gray, None)
        points.append(np.array([k.pt for k in keypoints]))
        descriptors.append(described)
    near = cv2.BFMatcher().knnMatch(descriptors[0], descriptors[1], k=2)
    good = [a for a, b in near if a.distance < SIFT_RATIO * b.distance]
    x0 = points[0][[m.queryIdx for m in good]]
    x1 = points[1][[m.trainIdx for m in good]]
    if len(good) < SIFT_INLIERS:
        return None
    _, inliers = cv2.findHomography(x0, x1, cv2.USAC_MAGSAC, 2.0)
    kept = np.zeros(len(x0), bool) if inliers is None else inliers.ravel() > 0
    if kept.sum() < SIFT_INLIERS:
        return None
    H_01, _ = cv2.findHomography(x0[kept], x1[kept], 0)  # least squares
    return np.asarray(H_01)


def posed(data: Path, folder: str, most: int) -> Iterator[tuple[Case, PosedPair]]:
    """Pairs of known cameras: "depth" to choose on, "posed" to judge on."""
    roots = (data / folder).glob("*/*/" if folder == "depth" else "*/")
    for root in sorted(roots):
        pairs = read_posed(root, min_overlap=0.3 if folder == "posed" else 0.0)
        for pair in pairs[:: max(1, len(pairs) // most)][:most]:
            make = partial(_read_posed, pair)
            yield Case(kind=f"{folder}, {root.name}", name=pair.name, make=make), pair


def _read_posed(pair: PosedPair) -> tuple[Image, Image, None]:
    return read_image(pair.camera0.image), read_image(pair.camera1.image), None

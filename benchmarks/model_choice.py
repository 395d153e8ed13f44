"""Which model `match_pair(model="auto")` finds, against what the images show.

Planes (data sets of homographies; photos from a camera that turned, half of them
through a lens that distorts), scenes in depth (posed pairs), and photos that have
nothing in common. Prints what was found, by set and matcher, and each wrong answer.

Not every pair has a clear answer. These are counted apart, by the truth and the matches
alone, whatever was found:

- *dark*: related pairs of which matches in fewer than 20 blocks of 32 px are within
  3 px of the truth, or which have less than a tenth of their matches there: too little
  is seen. For posed pairs the truth is the epipolar line and both bounds are doubled,
  since any match may lie near a line by chance;
- *flat*: posed pairs of which one homography explains the true places of the matches:
  it leaves less than an eighth of them beyond 0.5 % of the image's diagonal.

Two sets are shown but not counted. Thermal pairs: their truth is an affine map fitted
to hand labels, good to 1-3 px, between two cameras; nobody knows whether they are
planes. Reichstag: a facade without measured depth; nobody knows which pairs are flat.

    python benchmarks/model_choice.py ../shared/data --cache /tmp/model_choice
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from semisure.calibrate.random_views import WarpSettings, random_pair
from semisure.datasets.homographies import read_sequences
from semisure.datasets.posed import PosedPair, depth_at, read_posed
from semisure.geometry import epipolar
from semisure.geometry import homography as plane
from semisure.io.files import load_calibration, load_matches, save_matches
from semisure.io.images import Image, find_images, read_image, reduced
from semisure.matchers import load_matcher
from semisure.pairs.estimation import refit_matches
from semisure.types import Calibration, Mask, Matches, Matrix3, Points

STILL = WarpSettings(rotation_deg=0.0, log_zoom=0.0, corner_shift=0.0)
PHOTO_SIDE, FOCAL = 640, 1.1  # px; the focal length in image sides
MAX_TURN_DEG = 12.0
MAX_DISTORTION = 0.01  # of the half-diagonal at its end: what cheap lenses do
BLOCK_PX, NEAR_PX, MIN_BLOCKS, MIN_SHARE = 32.0, 3.0, 20, 0.1
FLAT_SHARE, FLAT_DIAGONALS = 1 / 8, 0.005
NOT_COUNTED = ("thermal", "reichstag")
EVERY = 45  # posed pairs of one scene, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Two images and what is true of them."""

    kind: str
    name: str
    wanted: str  # "plane", "depth" or "unrelated"
    images: Callable[[], tuple[Image, Image]]
    H_01: Matrix3 | None = None
    turn: Matrix3 | None = None  # of the camera
    posed: PosedPair | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, required=True, help="Folder of matches.")
    parser.add_argument("--matchers", nargs="+", default=["daisy", "xfeat-star"])
    parser.add_argument("--laws", nargs="+", help="Calibrations; default: shipped.")
    parser.add_argument("--sets", nargs="+", help="Only these.")
    parser.add_argument("--count", type=int, default=60, help="Rotations, unrelated.")
    parser.add_argument("--seed", type=int, default=14)
    options = parser.parse_args()
    cases = [
        case
        for case in all_cases(options.data, options.count, options.seed)
        if options.sets is None or case.kind in options.sets
    ]
    laws = options.laws or options.matchers
    for matcher, law in zip(options.matchers, laws, strict=True):
        judge(matcher, load_calibration(law), cases, options.cache)


def all_cases(data: Path, count: int, seed: int) -> Iterator[Case]:
    for folder in ("homography", "thermal"):
        for pair in read_sequences(data / folder):
            yield Case(
                kind=folder,
                name=pair.name,
                wanted="plane",
                images=partial(read_both, pair.image0, pair.image1),
                H_01=pair.H_01,
            )
    yield from photo_cases(find_images(data / "photos"), count, seed)
    for root in sorted([*(data / "posed").iterdir(), *(data / "depth").glob("*/*/")]):
        pairs = read_posed(root, min_overlap=0.3 if root.parent.name == "posed" else 0)
        for posed in pairs[:: max(1, len(pairs) // EVERY)][:EVERY]:
            yield Case(
                kind=root.name,
                name=posed.name,
                wanted="depth",
                images=partial(read_both, posed.camera0.image, posed.camera1.image),
                posed=posed,
            )


def read_both(first: Path, second: Path) -> tuple[Image, Image]:
    return read_image(first), read_image(second)


def read_small(first: Path, second: Path) -> tuple[Image, Image]:
    both = read_both(first, second)
    return reduced(both[0], PHOTO_SIDE), reduced(both[1], PHOTO_SIDE)


def photo_cases(photos: list[Path], count: int, seed: int) -> Iterator[Case]:
    order = np.random.default_rng(seed).permutation(len(photos))
    for i in range(count):
        photo, lens = photos[order[i]], "lens" if i % 2 else "pinhole"
        rng = np.random.default_rng([seed, i])
        R = random_turn(rng)
        bend = MAX_DISTORTION * rng.uniform(-1, 1) if i % 2 else 0.0
        yield Case(
            kind=f"turned, {lens}",
            name=photo.stem,
            wanted="plane",
            images=partial(turned, photo, R, bend, [seed, i]),
            turn=R,
        )
    for i in range(count):
        first, second = photos[order[i]], photos[order[-1 - i]]
        yield Case(
            kind="unrelated",
            name=f"{first.stem} {second.stem}",
            wanted="unrelated",
            images=partial(read_small, first, second),
        )


def random_turn(rng: np.random.Generator) -> Matrix3:
    """A rotation of up to MAX_TURN_DEG about each axis."""
    angles = np.radians(rng.uniform(-MAX_TURN_DEG, MAX_TURN_DEG, 3))
    return np.asarray(cv2.Rodrigues(angles)[0])


def turned(
    photo: Path, R: Matrix3, bend: float, seed: list[int]
) -> tuple[Image, Image]:
    """A photo and what the camera sees after a turn, in other light."""
    image = reduced(read_image(photo), PHOTO_SIDE)
    views = [seen(image, np.eye(3), bend), seen(image, R, bend)]
    rng = np.random.default_rng(seed)
    return random_pair(views[0], rng, STILL)[0], random_pair(views[1], rng, STILL)[1]


def seen(image: Image, R: Matrix3, bend: float) -> Image:
    """The photo, taken as the world, through a lens after a turn by R."""
    height, width = image.shape[:2]
    x, y = np.meshgrid(np.arange(width) - width / 2, np.arange(height) - height / 2)
    half = np.hypot(width, height) / 2
    stretch = 1.0 + bend * (x**2 + y**2) / half**2
    focal = FOCAL * max(width, height)
    rays = np.stack([x * stretch, y * stretch, np.full(x.shape, focal)], axis=-1) @ R
    at = focal * rays[..., :2] / rays[..., 2:] + [width / 2, height / 2]
    at = at.astype(np.float32)
    return np.asarray(cv2.remap(image, at[..., 0], at[..., 1], cv2.INTER_CUBIC))


def judge(matcher: str, law: Calibration, cases: list[Case], cache: Path) -> None:
    """Print the table of one matcher, and what went wrong."""
    table: dict[str, Counter[str]] = {}
    wrong = []
    for case, matches in matched(matcher, cases, cache):
        result = refit_matches(matches, law)
        answer = "unrelated"
        if result.related:
            answer = "plane" if result.kind == "homography" else "depth"
        unclear = why_unclear(case, matches)
        table.setdefault(case.kind, Counter())[unclear or answer] += 1
        if unclear is None and answer != case.wanted and case.kind not in NOT_COUNTED:
            wrong.append(f"  {case.kind}, {case.name}: {result.summary()}")
    show(matcher, cases, table)
    print("\n".join(["", *wrong, ""]))


def matched(
    matcher: str, cases: list[Case], cache: Path
) -> Iterator[tuple[Case, Matches]]:
    run = None
    cache.mkdir(parents=True, exist_ok=True)
    for case in cases:
        path = cache / f"{matcher}__{case.kind}__{case.name}.npz"
        if not path.exists():
            run = run or load_matcher(matcher)
            save_matches(run(*case.images()), path)
        yield case, load_matches(path)


def show(matcher: str, cases: list[Case], table: dict[str, Counter[str]]) -> None:
    wanted = {case.kind: case.wanted for case in cases}
    answers = "plane", "depth", "unrelated"
    print(f"{matcher:<24}" + "".join(f"{a:>11}" for a in (*answers, "right")), end="")
    print(f"{'dark':>11}{'flat':>6}")
    right = clear = 0
    for kind, row in table.items():
        total = sum(row[a] for a in answers)
        if kind not in NOT_COUNTED:
            right, clear = right + row[wanted[kind]], clear + total
        share = f"{row[wanted[kind]] / total:.0%}" if total else "–"
        print(f"{kind:<24}" + "".join(f"{row[a] or '':>11}" for a in answers), end="")
        print(f"{share:>11}{row['dark'] or '':>11}{row['flat'] or '':>6}")
    print(f"{'all':<24}{'':>33}{right / max(clear, 1):>11.1%}   of {clear}")


def why_unclear(case: Case, matches: Matches) -> str | None:
    """Dark or flat, as above, or None."""
    near = within(case, matches)
    if near is None:
        return None
    blocks = len(np.unique(np.floor(matches.source[near] / BLOCK_PX), axis=0))
    twice = 1 if case.posed is None else 2
    if blocks < twice * MIN_BLOCKS or near.mean() < twice * MIN_SHARE:
        return "dark"
    if case.posed is not None and is_flat(case.posed, matches):
        return "flat"
    return None


def within(case: Case, matches: Matches) -> Mask | None:
    """Matches near the truth; None for unrelated images."""
    if case.posed is not None:
        a, b = case.posed.camera0, case.posed.camera1
        F = epipolar.fundamental(case.posed.P_01, a.K, b.K)
        return np.abs(epipolar.lines_of(F[None], matches).distance) <= NEAR_PX
    H = case.H_01
    if case.turn is not None:
        H = of_turn(case.turn, matches.source_size)
    if H is None:
        return None
    return np.linalg.norm(plane.residual(H, matches), axis=1) <= NEAR_PX


def of_turn(R: Matrix3, size: tuple[int, int]) -> Matrix3:
    """K R K⁻¹ of the camera in `seen`, without its lens."""
    focal = FOCAL * max(size)
    K = np.array([[focal, 0, size[0] / 2], [0, focal, size[1] / 2], [0, 0, 1]])
    return K @ R @ np.linalg.inv(K)


def is_flat(pair: PosedPair, matches: Matches) -> bool:
    """True where one homography explains where the matches' sources truly are."""
    places = true_places(pair, matches)
    known = np.isfinite(places).all(axis=1)
    if known.sum() < 4:
        return False
    limit = FLAT_DIAGONALS * float(np.hypot(*matches.target_size))
    homography, _ = cv2.findHomography(
        matches.source[known], places[known], cv2.RANSAC, limit
    )
    if homography is None:
        return False
    H: Matrix3 = np.asarray(homography, dtype=np.float64)
    off = np.linalg.norm(
        plane.project(H, matches.source[known]) - places[known], axis=1
    )
    return bool((off > limit).mean() < FLAT_SHARE)


def true_places(pair: PosedPair, matches: Matches) -> Points:
    """Where depth and pose put the sources in image 1; NaN where depth is not known."""
    z = depth_at(pair.camera0, matches.source, matches.source_size)
    if z is None:
        return np.full_like(matches.source, np.nan)
    P = pair.P_01
    X = z[:, None] * epipolar.rays(pair.camera0.K, matches.source) @ P[:, :3].T
    pixel = (X + P[:, 3]) @ pair.camera1.K.T
    return np.where(pixel[:, 2:] > 0, pixel[:, :2] / pixel[:, 2:], np.nan)


if __name__ == "__main__":
    main()

"""Which images of a scene to match: of a folder, a video or a list.

==========  =======================================================================
folder      overlapping photos: all pairs of few, of many those near by name; a
            match of thumbnails finds out which overlap
video       frames some steps apart, all along it
list        a text file with two image names a line, relative to its folder
==========  =======================================================================

Where more pairs overlap than are wanted, they are taken evenly from the easiest to the
hardest: a law of easy pairs only would be too sure of itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from semisure.calibrate.found_pairs import MIN_INLIERS
from semisure.calibrate.scenes import MIN_MATCHES
from semisure.datasets import evenly
from semisure.errors import FileError
from semisure.estimators import estimate_fundamental
from semisure.io.images import Image, find_images, read_image, reduced
from semisure.io.sources import digest
from semisure.io.video import VIDEO_SUFFIXES, frames
from semisure.matchers import load_matcher
from semisure.pairs.lists import read_pairs
from semisure.types import Tick, silent
from semisure.types.pair_records import Names, Size

VIDEO_STEPS = (4, 8, 16, 32)  # frames between the two of a pair
LIST_SUFFIXES = frozenset((".txt", ".csv"))
THUMBNAIL_PX = 256
CANDIDATES = 4  # thumbnails' pairs that are looked at for each that is wanted
ALL_PAIRS = 400  # fewer than these are all looked at


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImagePairs:
    """The images of a scene and the pairs to match."""

    name: str
    images: Mapping[
        str, Path | Image
    ]  # files, or a video's frames as `read` gives them
    pairs: Sequence[Names]
    max_side: int  # larger images are reduced to this, px
    skipped: tuple[str, ...] = ()  # what could not be used, with the reason
    video: Path | None = None
    frame_size: Size | None = None  # of the video

    def read(self, name: str) -> Image:
        """An image, reduced."""
        image = self.images[name]
        if isinstance(image, Path):
            return reduced(read_image(image), self.max_side)
        return image

    def size_of(self, name: str) -> Size:
        """Width and height of an image before it was reduced."""
        image = self.images[name]
        if isinstance(image, Path):
            height, width = read_image(image).shape[:2]
            return width, height
        assert self.frame_size is not None
        return self.frame_size

    def made_of(self) -> list[list[str]]:
        """What a cache of these pairs rests on."""
        whole = "" if self.video is None else digest([self.video])
        contents = []
        for name in sorted({name for pair in self.pairs for name in pair}):
            image = self.images[name]
            contents.append(
                [name, digest([image]) if isinstance(image, Path) else whole]
            )
        return [*contents, *(list(pair) for pair in self.pairs)]


def find_pairs(
    path: Path, limit: int, max_side: int = 640, tick: Tick = silent
) -> ImagePairs:
    """At most `limit` pairs of a folder, a video or a list."""
    if path.is_dir():
        return _of_folder(path, limit, max_side, tick)
    if not path.exists():
        raise FileError(f"There is no scene {path}.")
    if path.suffix.lower() in VIDEO_SUFFIXES:
        return _of_video(path, limit, max_side)
    if path.suffix.lower() in LIST_SUFFIXES:
        return _of_list(path, limit, max_side)
    raise FileError(
        f"{path} is no scene: give a folder of overlapping photos, a video "
        f"({', '.join(sorted(VIDEO_SUFFIXES))}), or a text file with two image names "
        "a line."
    )


def _of_list(path: Path, limit: int, max_side: int) -> ImagePairs:
    """The pairs that a file names."""
    chosen = evenly(read_pairs(path), limit)
    images = {name: path.parent / name for pair in chosen for name in pair}
    return ImagePairs(name=path.stem, images=images, pairs=chosen, max_side=max_side)


def _of_video(path: Path, limit: int, max_side: int) -> ImagePairs:
    """Frames some steps apart, evenly along the video, every step as often."""
    total = sum(1 for _ in frames(path, lambda k: False))
    steps = [step for step in VIDEO_STEPS if step < total]
    if not steps:
        raise FileError(
            f"{path} must be a video of more than {VIDEO_STEPS[0]} frames, but OpenCV "
            f"reads {total}."
        )
    chosen = []
    for k in range(limit):
        step = steps[k % len(steps)]
        first = k * (total - step) // limit
        chosen.append((first, first + step))
    wanted = {frame for pair in chosen for frame in pair}
    images: dict[str, Path | Image] = {}
    size = None
    for k, frame in enumerate(frames(path, wanted.__contains__)):
        if frame is not None:
            size = frame.shape[1], frame.shape[0]
            images[f"frame {k}"] = reduced(frame, max_side)
    pairs = [(f"frame {a}", f"frame {b}") for a, b in dict.fromkeys(chosen)]
    return ImagePairs(
        name=path.stem,
        images=images,
        pairs=[pair for pair in pairs if images.keys() >= {*pair}],
        max_side=max_side,
        video=path,
        frame_size=size,
    )


def _of_folder(folder: Path, limit: int, max_side: int, tick: Tick) -> ImagePairs:
    """Pairs whose thumbnails agree on a geometry, evenly from easy to hard."""
    images, skipped = {}, []
    thumbnails: dict[str, Image] = {}
    for file in find_images(folder):
        name = file.relative_to(folder).as_posix()
        try:
            thumbnails[name] = reduced(read_image(file), THUMBNAIL_PX)
        except FileError as error:
            skipped.append(str(error))
            continue
        images[name] = file
    candidates = near_pairs(list(images), max(CANDIDATES * limit, ALL_PAIRS))
    agreeing: dict[Names, float] = {}
    for k, pair in enumerate(candidates):
        share = _agreement(*(thumbnails[name] for name in pair))
        if share >= MIN_INLIERS:
            agreeing[pair] = share
        tick(k + 1, len(candidates))
    if not agreeing:
        raise FileError(
            f"No two of the {len(images)} images in {folder} show the same scene; a "
            "calibration on scenes needs photos that overlap."
        )
    from_easy = sorted(agreeing, key=lambda pair: -agreeing[pair])
    return ImagePairs(
        name=folder.resolve().name,
        images=images,
        pairs=evenly(from_easy, limit),
        max_side=max_side,
        skipped=tuple(skipped),
    )


def near_pairs(names: Sequence[str], limit: int) -> Sequence[Names]:
    """At most `limit` pairs of names that are near each other in their order.

    >>> near_pairs("abcd", 5)
    [('a', 'b'), ('b', 'c'), ('c', 'd'), ('a', 'c'), ('b', 'd')]
    >>> near_pairs("abcd", 2)
    [('a', 'b'), ('b', 'c')]
    """
    pairs: list[Names] = []
    for apart in range(1, len(names)):
        pairs += zip(names, names[apart:], strict=False)
        if len(pairs) >= limit:
            break
    return evenly(pairs, limit)


def _agreement(image0: Image, image1: Image) -> float:
    """Share of a thumbnails' matches that agree with one epipolar geometry."""
    matches = load_matcher("daisy")(image0, image1)
    if len(matches) < MIN_MATCHES:
        return 0.0
    return float(estimate_fundamental(matches, "magsac++").inliers.mean())

"""Lists of pairs: of a file, all, neighbours in order, or images that look alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from semisure.errors import FileError, InputError
from semisure.io.images import find_images, read_image
from semisure.matchers.daisy_cells import Projection
from semisure.matchers.similar import describe_image, most_alike
from semisure.types import Tick, silent
from semisure.types.checks import read_lines
from semisure.types.pair_records import Names, check_name


def image_names(folder: Path) -> list[str]:
    """The images below a folder by their paths in it, in order."""
    names = [file.relative_to(folder).as_posix() for file in find_images(folder)]
    if len(names) < 2:
        raise FileError(
            f"{folder} must hold at least two images to pair, but has {len(names)}."
        )
    return names


def read_pairs(path: str | Path) -> list[Names]:
    r"""The pairs of a text file: two image names a line, with blanks or a comma.

    Lines may be hloc's retrieval lists; # begins a comment.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pairs.txt"
    >>> _ = file.write_text("# query db\na.jpg b.jpg\na.jpg,c.jpg\n")
    >>> read_pairs(file)
    [('a.jpg', 'b.jpg'), ('a.jpg', 'c.jpg')]
    """
    path = Path(path)
    pairs: list[Names] = []
    for number, line in enumerate(read_lines(path), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if len(words) not in (0, 2):
            raise FileError(
                f"Line {number} of {path} must hold two image names, but has "
                f"{len(words)} words."
            )
        if words:
            pairs.append((words[0], words[1]))
    if not pairs:
        raise FileError(f"{path} names no pair: expected two image names a line.")
    return pairs


def exhaustive_pairs(names: Sequence[str]) -> list[Names]:
    """Every image with every later one.

    >>> exhaustive_pairs("abc")
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    return list(itertools.combinations(names, 2))


def sequential_pairs(names: Sequence[str], count: int) -> list[Names]:
    """Every image with the `count` that follow it, as in a walk or a video.

    >>> sequential_pairs("abcd", 2)
    [('a', 'b'), ('a', 'c'), ('b', 'c'), ('b', 'd'), ('c', 'd')]
    """
    if count < 1:
        raise InputError(
            f"The images that follow must be at least 1, but are {count}: --sequential "
            "N pairs every image with the next N."
        )
    return [
        (name, other)
        for k, name in enumerate(names)
        for other in names[k + 1 : k + 1 + count]
    ]


def similar_pairs(
    folder: Path, names: Sequence[str], count: int, tick: Tick = silent
) -> list[Names]:
    """Each image with the `count` others most like it, every pair once.

    Images are described by the cells of the embedded matcher, whatever matcher comes
    after (:mod:`semisure.matchers.similar`).

    >>> import tempfile, cv2, numpy as np
    >>> folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for name in "ab":  # two scenes, each seen twice, 12 px apart
    ...     noise = rng.integers(0, 255, (140, 180)).astype("u1")
    ...     scene = cv2.GaussianBlur(noise, (0, 0), 4)
    ...     scene = cv2.normalize(scene, None, 0, 255, cv2.NORM_MINMAX)
    ...     for k in (0, 12):
    ...         _ = cv2.imwrite(str(folder / f"{name}{k}.png"), scene[:, k : k + 160])
    >>> similar_pairs(folder, ["a0.png", "a12.png", "b0.png", "b12.png"], 1)
    [('a0.png', 'a12.png'), ('b0.png', 'b12.png')]
    """
    projection = Projection.load()
    vectors = []
    for done, name in enumerate(names, start=1):
        vectors.append(describe_image(read_image(folder / name), projection))
        tick(done, len(names))
    return [(names[i], names[j]) for i, j in most_alike(vectors, count)]


def unique_pairs(pairs: Iterable[Names]) -> list[Names]:
    """The pairs without those that came before, either way around.

    >>> unique_pairs([("a", "b"), ("b", "a"), ("a", "c"), ("a", "b")])
    [('a', 'b'), ('a', 'c')]
    """
    unique: dict[Names, Names] = {}
    for first, second in pairs:
        check_name(first)
        check_name(second)
        if first == second:
            raise InputError(
                f"A pair must be of two images, but one is {first} with itself."
            )
        unique.setdefault((min(first, second), max(first, second)), (first, second))
    return list(unique.values())

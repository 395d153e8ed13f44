"""Supplement C.1: what horizontal and vertical blur do to the predicted errors.

The refined image of a pair is blurred along one axis and the pair matched again. A law
that depends on the image should predict larger errors along that axis. The true errors
stand beside it, which the paper does not show. Medians are over the
matches whose true error lies within the fine window: blur moves these, whereas a wrong
coarse cell depends on the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import cv2
import numpy as np

from semisure.bench.data import stored_png
from semisure.bench.exported import Exported, with_truth
from semisure.bench.outcome import Cell, Lines, Outcome, PhotoPanel, Table, where
from semisure.bench.study import Study, Task
from semisure.io.cache import Row
from semisure.io.images import Image, read_image, resized
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.mixture import abs_quantile
from semisure.report.documents import ONE_SIGMA
from semisure.report.plots import draw_ellipses
from semisure.types import Pair, PerAxis, PerMatch, Points

SIGMA_PX = 6.0
AXES: dict[str, tuple[float, float]] = {  # sigma along x and y
    "none": (0.0, 0.0),
    "horizontal": (SIGMA_PX, 0.0),
    "vertical": (0.0, SIGMA_PX),
}
PAIRS = 8  # one of a sequence
ELLIPSES = 150
_HEAD = ("E|r_x|", "E|r_y|", "x / y", "|r_x|", "|r_y|", "x / y")
_DRAWN = 0.03  # median half-axis as drawn, in image sides
_LARGEST = 3.0  # times that: larger ones would hide the others


def evaluate(task: Task) -> Row:
    """Medians over the matches of predicted and true errors along x and y."""
    matches, residual = with_truth(task.exported)
    right = np.abs(residual).max(axis=1) <= matches.fine_window
    matches, residual = matches.take(right), residual[right]
    predicted = mixture.expected_abs_residual(
        error_law(matches, task.calibrations.paper)
    )
    row: Row = {
        "matcher": task.matcher,
        "pair": task.exported.name,
        "blur": task.data,
        "matches": len(matches),
    }
    for name, values in (("predicted", predicted), ("observed", np.abs(residual))):
        for k, axis in enumerate("xy"):
            at = float(np.median(values[:, k])) if len(values) else None
            row[f"{name} {axis}"] = at
    return row


def blurred(image: Image, sigma: tuple[float, float]) -> Image:
    """A Gaussian of `sigma` px along x and y; 0 leaves an axis as it is."""
    if not any(sigma):
        return image
    taps = [2 * int(np.ceil(3 * s)) + 1 for s in sigma]
    x, y = (cv2.getGaussianKernel(n, s) for n, s in zip(taps, sigma, strict=True))
    return np.asarray(cv2.sepFilter2D(image, -1, x, y), dtype=np.uint8)


def easiest(exported: Sequence[Exported]) -> list[Exported]:
    """The pair with most sound matches of each sequence; of these the best `PAIRS`."""
    best: dict[str, tuple[int, Exported]] = {}
    for one in exported:
        matches, residual = with_truth(one)
        sound = int((np.abs(residual).max(axis=1) <= matches.fine_window).sum())
        if sound > best.get(one.group, (0, one))[0]:
            best[one.group] = sound, one
    ordered = sorted(best.values(), key=lambda entry: -entry[0])
    return [one for _, one in ordered[:PAIRS]]


def blur(study: Study) -> Outcome:
    """Medians by blur, and the ellipses of the first pair."""
    tasks, panels = [], []
    for matcher in study.options.matchers:
        plain = study.tasks(matcher, easiest(study.exported(matcher)))
        each = [(one, name) for one in plain for name in AXES]
        pairs = [(_pair(study, one.exported, name), None) for one, name in each]
        exported = study.matched(matcher, pairs)
        own = [
            replace(one, exported=pair, data=name)
            for (one, name), pair in zip(each, exported, strict=True)
        ]
        tasks += own
        panels += _panels(own[: len(AXES)])
    rows = study.map(evaluate, tasks, "Errors under blur")
    printed: Lines = []
    for _, label, mine in study.by_matcher([row for row in rows if row["matches"]]):
        for name in AXES:
            group = where(mine, blur=name)
            numbers: list[Cell] = []
            for what in ("predicted", "observed"):
                both = [[row[f"{what} {axis}"] for axis in "xy"] for row in group]
                x, y = np.median(np.reshape(both, (-1, 2)), axis=0).tolist()
                numbers += [x, y, x / y]
            printed.append([label, name, *numbers, len(group)])
    table = Table(
        name="blur",
        title=f"Median error, px, with the refined image blurred by {SIGMA_PX:g} px; "
        "the paper's: supplement C.1, a picture",
        head=["", "blur", *_HEAD, "pairs"],
        rows=printed,
    )
    return Outcome(
        tables=[table], rows=rows, figures={"blur": panels}, columns={"blur": 3}
    )


def refined_side(exported: Exported) -> int:
    """The image whose points most matches refine."""
    side = exported.matches().side
    return int(np.bincount(side, minlength=2).argmax()) if len(side) else 1


def _pair(study: Study, one: Exported, name: str) -> Pair:
    """The pair at the size it was matched, its refined image blurred, both saved."""
    assert one.size is not None
    images = [resized(read_image(path), one.size) for path in one.images]
    side = refined_side(one)
    images[side] = blurred(images[side], AXES[name])
    image0, image1 = (stored_png(i, study.options.cache / "blurred") for i in images)
    return Pair(name=one.name, image0=image0, image1=image1, H_01=one.H_01)


def _panels(tasks: Sequence[Task]) -> list[PhotoPanel]:
    """The same pair under each blur, its ellipses equally magnified."""
    drawn = [_drawn(task) for task in tasks]
    halves = np.concatenate([half for _, _, half, _ in drawn])
    longest = max(drawn[0][0].shape[:2])
    magnified = max(1.0, _DRAWN * longest / float(np.median(halves)))
    panels = []
    for task, (image, points, half, expected) in zip(tasks, drawn, strict=True):
        fits = magnified * half.max(axis=1) < _LARGEST * _DRAWN * longest
        size = image.shape[1], image.shape[0]
        draw = partial(
            draw_ellipses,
            image=image,
            size=size,
            points=points[fits],
            half_axes=half[fits],
            expected_px=expected[fits],
            magnified=magnified,
        )
        title = f"{task.matcher}, {task.exported.name}: blur {task.data}"
        title += f", ellipses × {magnified:.0f}"
        panels.append(PhotoPanel(title=title, sizes=[size], draw=draw))
    return panels


def _drawn(task: Task) -> tuple[Image, Points, PerAxis, PerMatch]:
    """The refined image, points in it, half-axes of their ellipses, expected errors."""
    matches, side = task.exported.matches(), refined_side(task.exported)
    matches = matches.take(matches.side == side)
    index = np.random.default_rng(0).permutation(len(matches))[:ELLIPSES]
    matches = matches.take(index)
    law = error_law(matches, task.calibrations.paper)
    half, expected = abs_quantile(law, ONE_SIGMA), mixture.expected_abs_error(law)
    return read_image(task.exported.images[side]), matches.refined, half, expected

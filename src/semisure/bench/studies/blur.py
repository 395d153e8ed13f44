"""Supplement C.1: what horizontal and vertical blur do to the predicted errors.

The refined image of a pair is blurred along one axis and the pair matched again. A law
that depends on the image should predict larger errors along that axis. Whether the true
errors grow as well stands beside it; the paper does not show that. Medians are over the
matches whose true error lies within the fine window: blur moves these, whereas a wrong
coarse cell depends on the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from semisure.bench.data import stored_png
from semisure.bench.exported import Exported, with_truth
from semisure.bench.outcome import Cell, Outcome, PhotoPanel, Table, where
from semisure.bench.study import Study
from semisure.io.cache import Row
from semisure.io.images import Image, read_image, resized
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.mixture import abs_quantile
from semisure.report.documents import ONE_SIGMA
from semisure.report.plots import draw_ellipses
from semisure.types import Calibration, Labels, Pair, PerAxis, PerMatch, Points

SIGMA_PX = 6.0
AXES: dict[str, tuple[float, float]] = {  # sigma along x and y
    "none": (0.0, 0.0),
    "horizontal": (SIGMA_PX, 0.0),
    "vertical": (0.0, SIGMA_PX),
}
PAIRS = 8  # one of a sequence
ELLIPSES = 150
_DRAWN = 0.03  # median half-axis as drawn, in image sides
_LARGEST = 3.0  # times that: the rest is left out, it would hide the others


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One pair with its refined image blurred."""

    matcher: str
    blur: str
    exported: Exported
    calibration: Calibration


def evaluate(task: Task) -> Row:
    """Medians over the matches of predicted and true errors along x and y."""
    matches, residual = with_truth(task.exported)
    right = np.abs(residual).max(axis=1) <= matches.fine_window
    matches, residual = matches.take(right), residual[right]
    predicted = mixture.expected_abs_residual(error_law(matches, task.calibration))
    row: Row = {
        "matcher": task.matcher,
        "pair": task.exported.name,
        "blur": task.blur,
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
    x, y = (cv2.getGaussianKernel(_taps(s), s) if s else np.ones((1, 1)) for s in sigma)
    return np.asarray(cv2.sepFilter2D(image, -1, x, y), dtype=np.uint8)


def _taps(sigma: float) -> int:
    return 2 * int(np.ceil(3 * sigma)) + 1


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
    tasks, panels, notes = [], [], []
    for matcher in study.options.matchers:
        plain = easiest(study.exported(matcher))
        calibrations, remark = study.calibrations(matcher, plain)
        notes.append(remark)
        pairs = [(_pair(study, one, name), None) for one in plain for name in AXES]
        exported = study.matched(matcher, pairs)
        own = [
            Task(matcher, name, exported[k * len(AXES) + j], calibrations[k].paper)
            for k in range(len(plain))
            for j, name in enumerate(AXES)
        ]
        tasks += own
        panels += _panels(own[: len(AXES)])
    rows = study.rows(evaluate, tasks, "Errors under blur")
    table = Table(
        name="blur",
        title=f"Median error, px, with the refined image blurred by {SIGMA_PX:g} px; "
        "the paper's: supplement C.1, a picture",
        head=["", "blur", *_HEAD, "pairs"],
        rows=_printed(study, rows),
    )
    figures = {"blur": panels}
    return Outcome(
        tables=[table], rows=rows, figures=figures, columns={"blur": 3}, notes=notes
    )


_HEAD = ("E|r_x|", "E|r_y|", "x / y", "|r_x|", "|r_y|", "x / y")


def _printed(study: Study, rows: Sequence[Row]) -> list[list[Cell]]:
    printed: list[list[Cell]] = []
    for matcher in study.options.matchers:
        for name in AXES:
            some = where(rows, matcher=matcher, blur=name)
            mine = [row for row in some if row["matches"]]
            numbers: list[Cell] = []
            for what in ("predicted", "observed"):
                x, y = (
                    float(np.median([r[f"{what} {axis}"] for r in mine]))
                    for axis in "xy"
                )
                numbers += [x, y, x / y]
            printed.append([study.label(matcher), name, *numbers, len(mine)])
    return printed


def refined_side(exported: Exported) -> int:
    """The image whose points most matches refine."""
    side = exported.matches().side
    return int(np.bincount(side, minlength=2).argmax()) if len(side) else 1


def _pair(study: Study, one: Exported, name: str) -> Pair:
    """The pair at the size it was matched, its refined image blurred, both saved."""
    side = refined_side(one)
    files: list[Path] = list(one.images)
    assert one.size is not None
    folder = study.options.cache / "blurred"
    for k in (0, 1):
        sigma = AXES[name] if k == side else (0.0, 0.0)
        image = blurred(resized(read_image(files[k]), one.size), sigma)
        files[k] = stored_png(image, folder)
    return Pair(name=one.name, image0=files[0], image1=files[1], H_01=one.H_01)


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
        title = f"{task.matcher}, {task.exported.name}: blur {task.blur}"
        title += f", ellipses × {magnified:.0f}"
        panels.append(PhotoPanel(title=title, sizes=[size], draw=draw))
    return panels


def _drawn(task: Task) -> tuple[Image, Points, PerAxis, PerMatch]:
    """The refined image, points in it, half-axes of their ellipses, expected errors."""
    matches, side = task.exported.matches(), refined_side(task.exported)
    matches = matches.take(matches.side == side)
    points = matches.target if side else matches.source
    image = read_image(task.exported.images[side])
    surest = np.argsort(-matches.confidence, kind="stable")
    some = _spread_out(points, surest, ELLIPSES)
    law = error_law(matches.take(some), task.calibration)
    return (
        image,
        points[some],
        abs_quantile(law, ONE_SIGMA),
        mixture.expected_abs_error(law),
    )


def _spread_out(points: Points, candidates: Labels, count: int) -> Labels:
    """About `count` of the candidates, the first in each cell of a grid."""
    positions = points[candidates]
    low, high = positions.min(axis=0), positions.max(axis=0)
    cell = np.sqrt(np.prod(np.maximum(high - low, 1.0)) / count)
    column, row = ((positions - low) // cell).astype(np.int64).T
    _, first = np.unique(row * 10_000 + column, return_index=True)
    return candidates[first]

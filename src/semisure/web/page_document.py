"""What the page shows of a result: numbers with their meaning, rounded columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import numpy as np

from semisure.geometry import homography as plane
from semisure.pairs.result import PairResult
from semisure.refit.core import without_bias
from semisure.report import documents
from semisure.report.palettes import ErrorRange
from semisure.report.uncertainty import corner_regions, line_bands
from semisure.types import PerMatch
from semisure.web.arms import Arm, compared
from semisure.web.orders import Order


def page_document(
    order: Order, pair: PairResult, rows: list[Arm], pictures: Collection[str]
) -> dict[str, Any]:
    """The document of the page, ready for JSON."""
    sizes = pair.matches.source_size, pair.matches.target_size
    scale = ErrorRange.of_sizes(sizes)
    return {
        **documents.document(pair),
        "chosen": order.chosen(),
        "numbers": [asdict(fact) for fact in documents.numbers(pair)],
        "arms": compared(pair, rows) if pair.related else [],
        "colors_px": (scale.least, scale.most),
        "image_sizes": sizes,
        "pictures": sorted(pictures),
        "columns": _columns(pair),
        "lines": _lines(pair),
        "corners": _corners(pair),
    }


def _columns(pair: PairResult) -> dict[str, Any]:
    """One list for each number of a match."""
    half = documents.half_axes(pair)
    unbiased, _ = without_bias(pair.matches, pair.calibration)
    rows = {
        "source": pair.matches.source,
        "target": pair.matches.target,
        "center": unbiased.refined,  # where the true point is expected
        "half_axes": half,
        "confidence": pair.matches.confidence,
        "expected": pair.expected_px,
        "median": pair.median_px,
        "within_90": pair.within_90_px,
        "failure": pair.failure,
        "weight": pair.refit.weight,
    }
    columns = {name: np.round(row, 3).tolist() for name, row in rows.items()}
    residual = _residual(pair)
    return {
        **columns,
        "side": pair.matches.side.tolist(),
        "residual": None if residual is None else _finite(residual),
    }


def _residual(pair: PairResult) -> PerMatch | None:
    """Distance of each match from where the homography puts it, px."""
    if not pair.related or pair.H_01 is None:
        return None
    unbiased, _ = without_bias(pair.matches, pair.calibration)
    return np.linalg.norm(plane.residual(pair.H_01, unbiased), axis=1)


def _finite(values: PerMatch) -> list[float | None]:
    return [round(v, 3) if np.isfinite(v) else None for v in values.tolist()]


def _lines(pair: PairResult) -> dict[str, Any] | None:
    """Each match's epipolar line, in the image of `side`; None where none are meant."""
    bands = line_bands(pair)
    if bands is None:
        return None
    return {
        "side": pair.matches.side.tolist(),
        "line": np.round(bands.line, 5).tolist(),
        "distance": np.round(bands.distance, 2).tolist(),
        "half_width": np.round(bands.half_width, 2).tolist(),
    }


def _corners(pair: PairResult) -> dict[str, Any] | None:
    """The corners of image 0 in image 1 and their 90 % ellipses, to be drawn."""
    regions = corner_regions(pair)
    if regions is None:
        return None
    shapes = np.column_stack([regions.half_axes, regions.degrees])
    return {
        "points": np.round(regions.points, 2).tolist(),
        "regions": np.round(shapes, 3).tolist(),
        "magnified": regions.magnified,
    }

"""Figure 3 and supplement C.2: pairs from easy to hard, their matches and their errors.

For each data set three pairs, by the first matcher's corner error before the refit: a
quarter of the way up, in the middle, and the hardest that has a model; a column for
each matcher. Matches are coloured by the error that the paper's law expects of them;
outliers of the initial homography are grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from semisure.bench.calibrations import CORE_ARMS
from semisure.bench.exported import Exported, Size
from semisure.bench.outcome import Cell, Outcome, PhotoPanel, Table, where
from semisure.bench.studies.homography import rows_of
from semisure.bench.study import Study
from semisure.estimators import estimate_homography
from semisure.io.cache import Row
from semisure.io.images import Image, read_image, reduced, resized
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.report.plots import draw_matches
from semisure.types import Calibration

SHARES = (0.25, 0.5, 1.0)  # of the pairs that have a model, from easy to hard
SHOWN_SIDE = 640  # px


def chosen(errors: Sequence[float]) -> list[int]:
    """Places of the pairs to show, from easy to hard, each once.

    >>> chosen([5.0, 1.0, float("inf"), 3.0, 2.0])
    [1, 4, 0]
    """
    order = np.argsort(errors, kind="stable")
    finite = [int(k) for k in order if np.isfinite(errors[k])]
    places = [max(0, round(share * len(finite)) - 1) for share in SHARES]
    return list(dict.fromkeys(finite[k] for k in places)) if finite else []


def qualitative(study: Study) -> Outcome:
    """A figure for each data set."""
    printed: list[list[Cell]] = []
    rows: list[Row] = []
    figures: dict[str, list[PhotoPanel]] = {}
    notes: list[str] = []
    for root in study.options.data:
        part = study.on([root])
        part_rows, remarks = rows_of(part, [study.options.estimator])
        notes += [remark for remark in remarks if remark not in notes]
        rows += [{"data": root.name, **row} for row in part_rows]
        figures[f"qualitative_{root.name}"] = panels = []
        by_matcher = _by_matcher(part, part_rows)
        first = next(iter(by_matcher.values()))
        for k in chosen([row["base"] for _, _, row in first]):
            for matcher, entries in by_matcher.items():
                exported, calibration, row = entries[k]
                panels.append(_panel(part, matcher, exported, calibration, row))
                errors = [row[arm] for arm in ("base", *CORE_ARMS)]
                about = root.name, row["pair"], study.label(matcher)
                printed.append([*about, *errors, row["matches"]])
    table = Table(
        name="qualitative",
        title="Corner error, px, of the pairs shown; the paper's: Fig. 3, pictures",
        head=["data", "pair", "matcher", "base", *CORE_ARMS, "matches"],
        rows=printed,
    )
    columns = dict.fromkeys(figures, len(study.options.matchers))
    return Outcome(
        tables=[table], rows=rows, figures=figures, columns=columns, notes=notes
    )


Shown = tuple[Exported, Calibration, Row]


def _by_matcher(study: Study, rows: Sequence[Row]) -> dict[str, list[Shown]]:
    """The pairs of each matcher, with the paper's law and their rows."""
    pairs: dict[str, list[Shown]] = {}
    for matcher in study.options.matchers:
        exported = study.exported(matcher)
        calibrations, _ = study.calibrations(matcher, exported)
        mine = where(rows, matcher=matcher)
        pairs[matcher] = [
            (pair, both.paper, row)
            for pair, both, row in zip(exported, calibrations, mine, strict=True)
        ]
    return pairs


def _panel(
    study: Study,
    matcher: str,
    exported: Exported,
    calibration: Calibration,
    row: Row,
) -> PhotoPanel:
    matches, options = exported.matches(), study.options
    start = estimate_homography(matches, options.estimator, options.ransac())
    image0, image1 = (_shown(path, exported.size) for path in exported.images)
    draw = partial(
        draw_matches,
        image0=image0,
        image1=image1,
        matches=matches,
        expected_px=mixture.expected_abs_error(error_law(matches, calibration)),
        grey=np.asarray(~start.inliers),
    )
    errors = " → ".join(f"{arm} {_px(row[arm])}" for arm in ("base", *CORE_ARMS))
    title = f"{exported.name}, {matcher}: {len(matches)} matches\n{errors} px"
    sizes = matches.source_size, matches.target_size
    return PhotoPanel(title=title, sizes=sizes, draw=draw)


def _px(error: float) -> str:
    """Two decimals below 10 px, none above.

    >>> _px(0.8934), _px(45.2), _px(1596.3)
    ('0.89', '45', '1596')
    """
    return f"{error:.2f}" if error < 10 else f"{error:.0f}"


def _shown(path: Path, size: Size | None) -> Image:
    image = read_image(path)
    return reduced(image if size is None else resized(image, size), SHOWN_SIDE)

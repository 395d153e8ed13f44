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

from semisure.bench.exported import Size
from semisure.bench.outcome import Lines, Outcome, PhotoPanel, Table
from semisure.bench.studies.homography import ARMS, rows_of, start_of
from semisure.bench.study import Study, Task
from semisure.io.cache import Row
from semisure.io.images import Image, read_image, reduced, resized
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.report.plots import draw_matches

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
    """A figure for each data set, a column for each matcher."""
    printed: Lines = []
    rows: list[Row] = []
    figures: dict[str, list[PhotoPanel]] = {}
    for root in study.options.data:
        part = study.on([root])
        part_rows = rows_of(part, [study.options.estimator])
        rows += [{"data": root.name, **row} for row in part_rows]
        figures[f"qualitative_{root.name}"] = panels = []
        by_matcher = [
            (label, part.tasks(matcher, part.exported(matcher)), mine)
            for matcher, label, mine in part.by_matcher(part_rows)
        ]
        for k in chosen([row["base"] for row in by_matcher[0][2]]):
            for label, tasks, mine in by_matcher:
                row = mine[k]
                panels.append(_panel(tasks[k], row))
                errors = [row[arm] for arm in ARMS]
                printed.append([root.name, row["pair"], label, *errors, row["matches"]])
    table = Table(
        name="qualitative",
        title="Corner error, px, of the pairs shown; the paper's: Fig. 3, pictures",
        head=["data", "pair", "matcher", *ARMS, "matches"],
        rows=printed,
    )
    wide = dict.fromkeys(figures, len(study.options.matchers))
    return Outcome(tables=[table], rows=rows, figures=figures, columns=wide)


def _panel(task: Task, row: Row) -> PhotoPanel:
    exported, matches = task.exported, task.exported.matches()
    start, law = start_of(task, matches), error_law(matches, task.calibrations.paper)
    image0, image1 = (_shown(path, exported.size) for path in exported.images)
    draw = partial(
        draw_matches,
        image0=image0,
        image1=image1,
        matches=matches,
        expected_px=mixture.expected_abs_error(law),
        grey=np.asarray(~start.inliers),
    )
    errors = " → ".join(f"{arm} {_px(row[arm])}" for arm in ARMS)
    title = f"{exported.name}, {task.matcher}: {len(matches)} matches\n{errors} px"
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

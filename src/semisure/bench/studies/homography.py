"""Table 1: homography AUC before and after the refit, by matcher and protocol."""

from __future__ import annotations

from semisure.bench import paper
from semisure.bench.auc_tables import (
    Lines,
    auc_outcome,
    gain_rows,
    our_rows,
    paper_rows,
)
from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Outcome, where
from semisure.bench.pair_rows import rows_of
from semisure.bench.study import Study


def homography(study: Study) -> Outcome:
    """A table for each protocol that the data ask for."""
    parts = {name: _of_protocol(part) for name, part in study.by_protocol().items()}
    return Outcome(
        tables=[table for part in parts.values() for table in part.tables],
        rows=[
            {"protocol": name, **row}
            for name, part in parts.items()
            for row in part.rows
        ],
        figures={k: v for part in parts.values() for k, v in part.figures.items()},
        notes=list(dict.fromkeys(n for part in parts.values() for n in part.notes)),
    )


def _of_protocol(study: Study) -> Outcome:
    options, at = study.options, THRESHOLDS[study.protocol]
    on_hpatches = study.protocol == "hpatches"
    rows, notes = rows_of(study, [options.estimator])
    published = paper.HPATCHES if on_hpatches else paper.MTV
    printed: Lines = []
    gained: Lines = []
    for matcher in options.matchers:
        mine = where(rows, matcher=matcher)
        if matcher in published:
            name = f"{paper.MATCHERS[matcher]}, paper"
            pairs = paper.HPATCHES_PAIRS if on_hpatches else None
            printed += paper_rows(name, published[matcher], pairs)
        label = study.label(matcher)
        printed += our_rows(label, mine, at)
        gained += gain_rows(label, mine, at, options.seed)
    title = (
        f"Homography AUC (%) after {options.estimator}; the paper's: Tab. 1, "
        f"{'HPatches' if on_hpatches else 'MTV'}"
    )
    name = "homography" if on_hpatches else f"homography_{study.protocol}"
    return auc_outcome(name, title, at, printed, rows, notes, gained)

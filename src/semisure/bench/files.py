"""Outcomes as files: text, CSV, JSON, PNG and SVG, and a page with all of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from semisure.bench import BENCHES
from semisure.bench.exported import Size
from semisure.bench.options import Options, protocol_of
from semisure.bench.outcome import Outcome
from semisure.io.atomic import as_json, write_atomically
from semisure.report.html import Picture, Section, versions, write_report


def text_of(outcome: Outcome) -> str:
    """Tables and remarks as they are printed."""
    tables = "\n".join(table.text() for table in outcome.tables)
    return tables + "".join(f"\n{note}" for note in outcome.notes) + "\n"


def write_outcome(name: str, options: Options, outcome: Outcome, folder: Path) -> None:
    """Tables as text, CSV and JSON, rows as CSV, figures as PNG and SVG."""
    text = f"{text_of(outcome)}\n{_made_with(options, name)}\n"
    files = {f"{name}.txt": text.encode()}
    for table in outcome.tables:
        files[f"{table.name}.csv"] = _csv([table.head, *table.rows])
    if outcome.rows:
        head = list(dict.fromkeys(key for row in outcome.rows for key in row))
        rows = ([row.get(key) for key in head] for row in outcome.rows)
        files[f"{name}_rows.csv"] = _csv([head, *rows])
    for kind in ("png", "svg"):
        for figure, picture in _rendered(outcome, kind).items():
            files[f"{figure}.{kind}"] = picture
    files[f"{name}.json"] = as_json(document(name, options, outcome))
    for file, content in {**files, **outcome.files}.items():
        write_atomically(folder / file, content)


def write_all(
    options: Options,
    outcomes: Mapping[str, Outcome],
    skipped: Mapping[str, str],
    folder: Path,
) -> Path:
    """The files of each bench, and ``index.html`` with all of them inside."""
    sections: list[Section] = []
    for name, outcome in outcomes.items():
        write_outcome(name, options, outcome, folder)
        sections += _sections(name, outcome)
    if skipped:
        table = [("what", "why"), *skipped.items()]
        sections.append(Section(heading="Not on this page", table=table))
    lead = (
        f"{_made_with(options)} Rows named paper are copied from it; its data and "
        "matcher differ unless the row says otherwise."
    )
    page = folder / "index.html"
    write_report(page, "The paper's evaluation", lead, sections)
    return page


def document(name: str, options: Options, outcome: Outcome) -> dict[str, Any]:
    """All of an outcome except its figures, with what is needed to repeat it."""
    settings = asdict(options)
    settings["data"] = {
        str(root): {
            "protocol": protocol_of(root),
            "size": _size_of(name, options, root),
        }
        for root in options.data
    }
    if not BENCHES[name].as_they_are:  # the others state theirs in a remark
        settings["threshold_px"] = options.ransac().threshold_px
    whole = {
        "bench": name,
        "paper": BENCHES[name].paper,
        "settings": settings,
        "versions": dict(versions()),
        "notes": outcome.notes,
        "tables": [asdict(table) for table in outcome.tables],
        "rows": outcome.rows,
    }
    return {key: _plain(value) for key, value in whole.items()}


def _plain(value: Any) -> Any:
    """The value as JSON can hold it: NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows as CSV; None is an empty field, infinity is `inf`."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()


def _rendered(outcome: Outcome, kind: str) -> dict[str, bytes]:
    """The figures that have panels as PNG or SVG."""
    from semisure.bench.figures import rendered

    return {
        name: rendered(panels, outcome.columns.get(name), kind)
        for name, panels in outcome.figures.items()
        if panels
    }


def _made_with(options: Options, name: str | None = None) -> str:
    """What is needed to get the same numbers, of one bench or of all."""
    listed = ", ".join(" ".join(row) for row in versions())
    sizes = {root: _size_of(name, options, root) for root in options.data}
    sets = ", ".join(
        root.name if size is None else "{} ({} × {})".format(root.name, *size)
        for root, size in sizes.items()
    )
    return (
        f"Matchers {', '.join(options.matchers)}; data {sets}; {options.estimator}; "
        f"seed {options.seed}. Made with {listed}."
    )


def _size_of(name: str | None, options: Options, root: Path) -> Size | None:
    """The size that images are resized to; None if they keep their own."""
    as_they_are = name is not None and BENCHES[name].as_they_are
    return options.size if as_they_are else options.size_of(root)


def _sections(name: str, outcome: Outcome) -> Iterator[Section]:
    """The first table with the remarks, others below it, the pictures at the end."""
    entry = BENCHES[name]
    pictures = [
        Picture(png, f"{title}: {entry.what}", wide=len(outcome.figures[title]) > 1)
        for title, png in _rendered(outcome, "png").items()
    ]
    last = outcome.tables[-1]
    for table in outcome.tables:
        first = table is outcome.tables[0]
        yield Section(
            heading=f"{name} ({entry.paper})" if first else table.name,
            text=" ".join([f"{table.title}.", *(outcome.notes if first else ())]),
            table=table.cells(),
            pictures=pictures if table is last else (),
        )

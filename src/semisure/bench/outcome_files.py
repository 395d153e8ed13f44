"""An outcome as files: tables as text, CSV and JSON, figures as PNG and SVG."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any

from semisure.bench import BENCHES
from semisure.bench.exported import Size
from semisure.bench.options import Options
from semisure.bench.outcome import Outcome, as_csv, plain, rows_as_csv
from semisure.io.atomic import write_atomically, write_json
from semisure.report.html import versions


def text_of(outcome: Outcome) -> str:
    """Tables and remarks as they are printed."""
    tables = "\n".join(table.text() for table in outcome.tables)
    return tables + "".join(f"\n{note}" for note in outcome.notes) + "\n"


def write_outcome(name: str, options: Options, outcome: Outcome, folder: Path) -> None:
    """Tables as text, CSV and JSON, rows as CSV, figures as PNG and SVG."""
    from semisure.bench.figures import draw, rendered

    files = {
        f"{name}.txt": f"{text_of(outcome)}\n{made_with(options, name)}\n".encode()
    }
    for table in outcome.tables:
        files[f"{table.name}.csv"] = as_csv([table.head, *table.rows])
    if outcome.rows:
        files[f"{name}_rows.csv"] = rows_as_csv(outcome.rows)
    for figure_name, panels in outcome.figures.items():
        if not panels:
            continue
        figure = draw(panels, outcome.columns.get(figure_name))
        for kind in ("png", "svg"):
            files[f"{figure_name}.{kind}"] = rendered(figure, kind)
    for file, content in {**files, **outcome.files}.items():
        write_atomically(folder / file, partial(_put, content))
    write_json(folder / f"{name}.json", document(name, options, outcome))


def made_with(options: Options, name: str | None = None) -> str:
    """What is needed to get the same numbers, of one bench or of all."""
    listed = ", ".join(" ".join(row) for row in versions(loaded_only=False))
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
    """The size that images are brought to; None where they are taken as they are."""
    as_they_are = name is not None and BENCHES[name].as_they_are
    return options.size if as_they_are else options.size_of(root)


def _put(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


def document(name: str, options: Options, outcome: Outcome) -> dict[str, Any]:
    """All of an outcome but its figures, with what is needed to repeat it."""
    settings = asdict(options)
    settings["data"] = {
        str(root): {
            "protocol": options.protocol_of(root),
            "size": _size_of(name, options, root),
        }
        for root in options.data
    }
    for key, folders in (("native", options.native), ("maps", options.maps)):
        settings[key] = {label: str(path) for label, path in folders.items()}
    for key in ("cache", "weights", "calibrate_on"):
        settings[key] = None if settings[key] is None else str(settings[key])
    if not BENCHES[name].as_they_are:  # those say in their remarks what they took
        settings["threshold_px"] = options.ransac().threshold_px
    return plain(
        {
            "bench": name,
            "paper": BENCHES[name].paper,
            "settings": settings,
            "versions": dict(versions(loaded_only=False)),
            "notes": list(outcome.notes),
            "tables": [asdict(table) for table in outcome.tables],
            "rows": list(outcome.rows),
        }
    )

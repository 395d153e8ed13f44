"""One bench from its name to the files it leaves."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from semisure.__about__ import __version__
from semisure.bench import BENCHES, check_name
from semisure.bench.parallel import Tick, workers
from semisure.bench.study import Options, Study
from semisure.bench.tables import Outcome, as_csv, plain, rows_as_csv
from semisure.files import write_atomically, write_json

_PACKAGES = (
    "numpy",
    "scipy",
    "opencv-python-headless",
    "torch",
    "kornia",
    "poselib",
    "pycolmap",
)


def run_bench(
    name: str,
    options: Options,
    *,
    count: int = 1,
    tick: Callable[[str], Tick] | None = None,
) -> Outcome:
    """The bench called `name` by `count` worker processes."""
    check_name(name)
    with workers(count) as pool:
        study = Study(options, pool) if tick is None else Study(options, pool, tick)
        return of_study(name, study)


def of_study(name: str, study: Study) -> Outcome:
    """The same with the processes at hand."""
    check_name(name)
    module = importlib.import_module(f"semisure.bench.{BENCHES[name].module}")
    return getattr(module, name)(study)


def text_of(outcome: Outcome) -> str:
    """Tables and remarks as they are printed."""
    tables = "\n".join(table.text() for table in outcome.tables)
    return tables + "".join(f"\n{note}" for note in outcome.notes) + "\n"


def write_outcome(name: str, options: Options, outcome: Outcome, folder: Path) -> None:
    """Tables as text, CSV and JSON, rows as CSV, figures as PNG and SVG."""
    from semisure.bench.figures import draw, rendered

    files = {f"{name}.txt": text_of(outcome).encode()}
    for table in outcome.tables:
        files[f"{table.name}.csv"] = as_csv([table.head, *table.rows])
    if outcome.rows:
        files[f"{name}_rows.csv"] = rows_as_csv(outcome.rows)
    files |= outcome.files
    for figure_name, panels in outcome.figures.items():
        if not panels:
            continue
        figure = draw(panels)
        for kind in ("png", "svg"):
            files[f"{figure_name}.{kind}"] = rendered(figure, kind)
    for file, content in files.items():
        write_atomically(folder / file, partial(_put, content))
    write_json(folder / f"{name}.json", document(name, options, outcome))


def _put(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


def document(name: str, options: Options, outcome: Outcome) -> dict[str, Any]:
    """All of an outcome but its figures, with what is needed to repeat it."""
    settings = asdict(options)
    settings["data"] = [str(root) for root in options.data]
    for key in ("cache", "weights"):
        settings[key] = None if settings[key] is None else str(settings[key])
    if not BENCHES[
        name
    ].as_they_are:  # those of poses say in their notes what they took
        settings["size"] = options.image_size
        settings["threshold_px"] = options.ransac().threshold_px
    return plain(
        {
            "bench": name,
            "paper": BENCHES[name].paper,
            "settings": settings,
            "versions": versions(),
            "notes": list(outcome.notes),
            "tables": [asdict(table) for table in outcome.tables],
            "rows": list(outcome.rows),
        }
    )


def versions() -> dict[str, str]:
    """Of everything that may change a number."""
    found = {"semisure": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found

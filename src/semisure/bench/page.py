"""All outcomes on one page, and why others are not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semisure.bench import BENCHES
from semisure.bench.figures import draw, rendered
from semisure.bench.options import Options
from semisure.bench.outcome import AnyPanel, Outcome, Panel, Radar
from semisure.bench.outcome_files import made_with, write_outcome
from semisure.bench.run import Everything
from semisure.report.html import Picture, Section, write_report
from semisure.report.plots import light_and_dark


def write_all(options: Options, everything: Everything, folder: Path) -> Path:
    """The files of each bench, and ``index.html`` with all of them inside."""
    for name, outcome in everything.outcomes.items():
        write_outcome(name, options, outcome, folder)
    sections = [
        section
        for name, outcome in everything.outcomes.items()
        for section in _sections(name, outcome)
    ]
    if everything.skipped:
        head = ("what", "why")
        sections.append(
            Section(
                heading="Not on this page", table=[head, *everything.skipped.items()]
            )
        )
    lead = (
        f"{made_with(options)} Rows named paper are copied from it; its data and "
        "matcher differ unless the row says otherwise."
    )
    page = folder / "index.html"
    write_report(page, "The paper's evaluation", lead, sections)
    return page


def _sections(name: str, outcome: Outcome) -> list[Section]:
    """The first table with the remarks, others below it, the pictures at the end."""
    entry = BENCHES[name]
    pictures = [
        _picture(f"{title}: {entry.what}", panels, outcome.columns.get(title))
        for title, panels in outcome.figures.items()
        if panels
    ]
    tables = list(outcome.tables)
    return [
        Section(
            heading=f"{name} ({entry.paper})" if k == 0 else table.name,
            text=" ".join([f"{table.title}.", *(outcome.notes if k == 0 else ())]),
            table=table.cells(),
            pictures=pictures if k == len(tables) - 1 else (),
        )
        for k, table in enumerate(tables)
    ]


def _picture(caption: str, panels: Sequence[AnyPanel], columns: int | None) -> Picture:
    """Charts with a twin for dark pages; photos as they are."""
    figure, wide = draw(panels, columns), len(panels) > 1
    if not all(isinstance(panel, Panel | Radar) for panel in panels):
        return Picture(rendered(figure, "png"), caption, wide)
    light, dark = light_and_dark(figure)
    return Picture(light, caption, wide, dark)

"""Every bench that the data allow, on one page, and what is missing for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from semisure.bench import BENCHES, WITHOUT_HOMOGRAPHY
from semisure.bench.figures import draw, rendered
from semisure.bench.parallel import Tick, workers
from semisure.bench.poses import has_depth, is_map
from semisure.bench.run import of_study, versions, write_outcome
from semisure.bench.study import Options, Study, is_posed
from semisure.bench.tables import Outcome
from semisure.errors import SemisureError
from semisure.report import Picture, Section, write_report

# What this page cannot hold, and for want of what.
ELSEWHERE = {
    "Fig. 3, qualitative": "`semisure match` draws any pair.",
    "Supplement, native uncertainty and directional blur": "not done yet.",
}


@dataclass(frozen=True, slots=True)
class Everything:
    """Outcomes by bench, and a sentence for each that could not be had."""

    outcomes: dict[str, Outcome]
    skipped: dict[str, str]


def run_all(
    options: Options, *, count: int = 1, tick: Callable[[str], Tick] | None = None
) -> Everything:
    """All benches by the same worker processes; one that fails is told, not fatal."""
    done = Everything({}, {})
    with workers(count) as pool:
        study = Study(options, pool) if tick is None else Study(options, pool, tick)
        # Without data there is nothing to skip.
        for root in options.data:
            if is_posed(root) or not is_map(root):
                _only(study, [root]).pairs(posed=True)
        for name in BENCHES:
            try:
                done.outcomes[name] = of_study(name, _fit_for(name, study))
            except SemisureError as error:
                done.skipped[name] = str(error)
    return done


def _fit_for(name: str, study: Study) -> Study:
    """The study without folders that the bench cannot use, if others are left."""
    data = study.options.data
    fit = [root for root in data if _fits(name, root)]
    return study if len(fit) in (0, len(data)) else _only(study, fit)


def _fits(name: str, root: Path) -> bool:
    if name == "localisation":
        return is_map(root)
    if is_posed(root):
        return name == "relative" or (name in WITHOUT_HOMOGRAPHY and has_depth(root))
    return name != "relative" and not is_map(root)


def _only(study: Study, data: Sequence[Path]) -> Study:
    return replace(study, options=replace(study.options, data=data))


def write_all(options: Options, done: Everything, folder: Path) -> Path:
    """The files of each bench, and ``index.html`` with all of them inside."""
    for name, outcome in done.outcomes.items():
        write_outcome(name, options, outcome, folder)
    sections = [_section(name, outcome) for name, outcome in done.outcomes.items()]
    reasons = {**done.skipped, **ELSEWHERE}
    sections.append(
        Section(
            heading="Not on this page",
            table=[("what", "why"), *reasons.items()],
        )
    )
    width, height = options.image_size
    made_with = ", ".join(f"{name} {v}" for name, v in versions().items())
    lead = (
        f"Matchers {', '.join(options.matchers)}; data "
        f"{', '.join(root.name for root in options.data)}; images at {width} × "
        f"{height} unless a section says otherwise; {options.estimator} at "
        f"{options.ransac().threshold_px:g} px; seed {options.seed}. Made with "
        f"{made_with}. Rows named paper are copied from it; its data and matcher "
        "differ unless the row says otherwise."
    )
    page = folder / "index.html"
    write_report(page, "The paper's evaluation", lead, sections)
    return page


def _section(name: str, outcome: Outcome) -> Section:
    entry = BENCHES[name]
    table = outcome.tables[0]
    pictures = [
        Picture(rendered(draw(panels), "png"), f"{title}: {entry.what}", wide=True)
        for title, panels in outcome.figures.items()
        if panels
    ]
    return Section(
        heading=f"{name} ({entry.paper})",
        text=" ".join([f"{table.title}.", *outcome.notes]),
        table=table.cells(),
        pictures=pictures,
    )

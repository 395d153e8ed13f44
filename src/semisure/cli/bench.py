"""`semisure bench`: the paper's tables and figures on your data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semisure.cli import choices, engine_options
from semisure.cli.options import (
    AsJson,
    CalibrationName,
    Device,
    EstimatorName,
    OptimiserName,
    Quiet,
    Seed,
    WeightsFile,
    complete_calibrations,
    parse_size,
)
from semisure.cli.progress import stages
from semisure.cli.root import app

if TYPE_CHECKING:
    from semisure.bench.options import Options
    from semisure.engine import EngineSettings

ALL = "all"


def _benches(incomplete: str) -> list[str]:
    from semisure.bench import BENCHES

    return [name for name in (*BENCHES, ALL) if name.startswith(incomplete)]


DataFolders = Annotated[
    list[Path] | None,
    typer.Option(
        help="A data set, or a folder of data sets; repeatable.", metavar="FOLDER"
    ),
]
MatcherNames = Annotated[
    list[str] | None,
    choices.one_of(
        choices.MATCHERS,
        "Matcher, default daisy; repeatable; +full behind a network's name refines its "
        "matches on the full-size photos",
        "--matcher",
        also=choices.REFINED,
    ),
]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        help="hpatches (1280x960; 1, 3, 5, 10 px) or mtv (960x640; 10 to 100 px); "
        "default: mtv for folders named mtv or thermal."
    ),
]
MaxSide = Annotated[int | None, typer.Option(help="Match at this size at most, px.")]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", help="Inlier threshold, px; default: the bench's own."),
]
FaithfulName = Annotated[
    str | None,
    typer.Option(
        help="Law of the paper's arms, fitted without a location; needed where "
        "--calibration has one.",
        autocompletion=complete_calibrations,
    ),
]
CalibrateOn = Annotated[
    Path | None,
    typer.Option(
        help="Fit laws to 200 held-out pairs of this folder: the paper's way."
    ),
]
CalibrationPairs = Annotated[
    int, typer.Option(help="Number of pairs of --calibrate-on that are used.")
]
CalibrationSize = Annotated[
    str | None,
    typer.Option(
        help="Image size of those pairs; default: the paper's.", metavar="WxH"
    ),
]
CrossValidate = Annotated[
    bool,
    typer.Option(
        "--cross-validate", help="Fit laws to the other sequences of the same data."
    ),
]
PaletteName = Annotated[
    str,
    typer.Option(help="Colours of matches: semisure, or paper (green to red, grey)."),
]
Maps = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        help="COLMAP model of a matcher's own matches, to localise in; repeatable.",
        metavar="MATCHER=FOLDER",
    ),
]
Native = Annotated[
    list[str] | None,
    typer.Option(
        help="Another matcher's uncertainties; repeatable.", metavar="NAME=FOLDER"
    ),
]
Peers = Annotated[
    list[str] | None,
    choices.one_of(
        choices.PEERS, "For `bench peers`, default sift; repeatable", "--peer"
    ),
]
Views = Annotated[
    int,
    typer.Option(help="Replace each second image by this many random views of it."),
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Leave out pairs that cannot be read.")
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps matches and rows; default: OUTPUT/matches."),
]
Limit = Annotated[
    int | None,
    typer.Option(help="Largest number of pairs or queries of a folder, spread evenly."),
]


@app.command(
    epilog="Example: `semisure bench homography --data hpatches-sequences-release "
    "--matcher xfeat-star --workers 4 -o results`"
)
def bench(
    name: Annotated[
        str | None, typer.Argument(help="See --list.", autocompletion=_benches)
    ] = None,
    data: DataFolders = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder of results.")
    ] = Path("bench"),
    matcher: MatcherNames = None,
    peer: Peers = None,
    protocol: ProtocolName = None,
    size: Annotated[
        str | None,
        typer.Option(help="Resize images to WxH instead of the paper's size."),
    ] = None,
    max_side: MaxSide = None,
    estimator: EstimatorName = "ransac",
    threshold_px: Threshold = None,
    calibration: CalibrationName = None,
    faithful: FaithfulName = None,
    calibrate_on: CalibrateOn = None,
    calibration_pairs: CalibrationPairs = 200,
    calibration_size: CalibrationSize = None,
    cross_validate: CrossValidate = False,
    optimiser: OptimiserName = "newton",
    native: Native = None,
    maps: Maps = None,
    palette: PaletteName = "semisure",
    views: Views = 0,
    keep_going: KeepGoing = False,
    cache: CacheFolder = None,
    limit: Limit = None,
    engine: engine_options.EngineName = "local",
    address: engine_options.Address = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes; with ray, default: all.", metavar="N"),
    ] = None,
    gpus_per_worker: engine_options.GpusPerWorker = 0.0,
    max_failures: Annotated[
        int, typer.Option(help="Leave out at most N pairs that cannot be matched.")
    ] = 0,
    device: Device = None,
    weights: WeightsFile = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the benches and what each needs.")
    ] = False,
) -> None:
    """Repeat a table or figure of the paper, its numbers beside ours.

    Matches are exported once and kept; evaluation runs no network. If it is
    interrupted, run it again: it goes on where it stopped. Writes text, CSV, JSON, PNG
    and SVG.
    """
    from semisure.bench import check_name

    if listed or name is None:
        _print_list()
        return
    if name != ALL:
        check_name(name)
    if not data:
        raise typer.BadParameter("say where the data are: --data FOLDER")
    from semisure.bench.options import PROTOCOLS, Options
    from semisure.datasets.layouts import find_sets
    from semisure.io.atomic import check_output_folder
    from semisure.law.fit_law import OPTIMISERS
    from semisure.report.palettes import PALETTES
    from semisure.types import as_choice

    check_output_folder(output)
    options = Options(
        data=[folder for root in data for folder in find_sets(root)],
        matchers=tuple(matcher or ["daisy"]),
        peers=tuple(peer or ()),
        protocol=as_choice("protocol", protocol, PROTOCOLS) if protocol else None,
        calibration=calibration,
        faithful=faithful,
        calibrate_on=calibrate_on,
        calibration_pairs=calibration_pairs,
        calibration_size=parse_size(calibration_size),
        cross_validate=cross_validate,
        optimiser=as_choice("optimiser", optimiser, OPTIMISERS),
        native=_named_folders(native or [], "--native"),
        maps=_named_folders(maps or [], "--map"),
        palette=as_choice("palette", palette, PALETTES),
        views=views,
        keep_going=keep_going,
        max_failures=max_failures,
        size=parse_size(size),
        max_side=max_side,
        weights=weights,
        device=device,
        estimator=estimator,
        threshold_px=threshold_px,
        cache=cache or output / "matches",
        limit=limit,
        seed=seed,
    )
    run = _run_all if name == ALL else partial(_run_one, name)
    who = engine_options.engine_settings(
        engine, address, _processes(engine, workers), gpus_per_worker
    )
    run(options, who, output, as_json, quiet or as_json)


def _processes(engine: str, workers: int | None) -> int | None:
    """One of this machine unless more are asked for; timings depend on it."""
    if engine != "local":
        return workers
    if workers is not None and workers < 1:
        raise typer.BadParameter("--workers must be at least 1")
    return workers or 1


def _print_list() -> None:
    from semisure.bench import BENCHES

    width = max(map(len, BENCHES))
    for entry in BENCHES.values():
        typer.echo(
            f"{entry.name:<{width}}  {entry.paper}: {entry.what}; needs {entry.needs}"
        )
    typer.echo(f"{ALL:<{width}}  all of these that the data allow, on one page")


def _print_json(content: Any) -> None:
    from semisure.io.atomic import as_json

    typer.echo(as_json(content).decode(), nl=False)


def _named_folders(given: list[str], option: str) -> dict[str, Path]:
    folders = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise typer.BadParameter(f"{text!r} is not NAME=FOLDER", param_hint=option)
        if not Path(folder).is_dir():
            raise typer.BadParameter(f"there is no folder {folder}", param_hint=option)
        folders[name] = Path(folder)
    return folders


def _run_one(
    name: str,
    options: Options,
    engine: EngineSettings,
    output: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    from semisure.bench.outcome_files import document, text_of, write_outcome
    from semisure.bench.run import run_bench

    with stages(quiet, lines=not quiet) as tick:
        outcome = run_bench(name, options, engine=engine, tick=tick)
    write_outcome(name, options, outcome, output)
    if as_json:
        _print_json(document(name, options, outcome))
    if not quiet:
        typer.echo(text_of(outcome))
        typer.echo(f"Wrote {output / name}.txt, CSV, JSON and figures.")


def _run_all(
    options: Options, engine: EngineSettings, output: Path, as_json: bool, quiet: bool
) -> None:
    from semisure.bench.outcome_files import document, text_of
    from semisure.bench.page import write_all
    from semisure.bench.run import run_all

    with stages(quiet, lines=not quiet) as tick:
        everything = run_all(options, engine=engine, tick=tick)
    outcomes, skipped = everything.outcomes, everything.skipped
    page = write_all(options, everything, output)
    if as_json:
        documents = {n: document(n, options, one) for n, one in outcomes.items()}
        _print_json({"page": str(page), "benches": documents, "skipped": skipped})
    if quiet:
        return
    for outcome in outcomes.values():
        typer.echo(text_of(outcome))
    for name, reason in skipped.items():
        typer.echo(f"Skipped {name}: {reason}")
    typer.echo(f"Open {page.resolve()} in a browser for the figures.")

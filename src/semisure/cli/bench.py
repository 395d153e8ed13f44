"""`semisure bench`: the paper's tables and figures on your data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from semisure.cli import options
from semisure.cli.config import settings_of, taken
from semisure.cli.progress import stages
from semisure.cli.root import app

ALL = "all"


def _benches(incomplete: str) -> list[str]:
    from semisure.bench import BENCHES

    return [name for name in (*BENCHES, ALL) if name.startswith(incomplete)]


@app.command(
    epilog="Example: `semisure bench homography --data hpatches-sequences-release "
    "--matcher xfeat-star --workers 4 -o results`"
)
def bench(
    name: Annotated[
        str | None,
        typer.Argument(help="Without it, all are listed.", autocompletion=_benches),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="A data set, or a folder of data sets; repeatable.", metavar="FOLDER"
        ),
    ] = None,
    output: options.OutputFolder = Path("bench"),
    matcher: options.MatcherNames = None,
    estimator: options.EstimatorName = None,
    calibration: options.CalibrationName = None,
    calibrate_on: Annotated[
        Path | None,
        typer.Option(
            help="Fit laws to 200 held-out pairs of this folder: the paper's way.",
            metavar="FOLDER",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Resize images to this instead of the paper's size.", metavar="WxH"
        ),
    ] = None,
    views: Annotated[
        int | None,
        typer.Option(
            help="Replace each second image by this many random views of it.",
            metavar="N",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Largest number of pairs or queries of a folder, spread evenly.",
            metavar="N",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps matches and rows; default: OUTPUT/matches.",
            metavar="FOLDER",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes; default: one, for timings depend on it.",
            metavar="N",
        ),
    ] = None,
    device: options.Device = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.", min=0)] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Repeat a table or figure of the paper, its numbers beside ours.

    Matches are exported once and kept; evaluation runs no network. If it is
    interrupted, run it again: it goes on where it stopped. Writes text, CSV, JSON, PNG
    and SVG. A file for --config may set the fields of `semisure.bench.options.Options`,
    and the engine in its table [engine].
    """
    from semisure.bench import check_name
    from semisure.engine import EngineSettings

    if name is None:
        _print_list()
        return
    if name != ALL:
        check_name(name)
    if not data:
        raise typer.BadParameter("say where the data are: --data FOLDER")
    from semisure.bench.options import Options
    from semisure.datasets.layouts import find_sets
    from semisure.io.atomic import check_output_folder

    check_output_folder(output)
    settings = settings_of(
        config,
        {
            "matchers": tuple(matcher) if matcher else None,
            "estimator": estimator,
            "calibration": calibration,
            "calibrate_on": calibrate_on,
            "size": options.parse_size(size),
            "views": views,
            "limit": limit,
            "device": device,
            "seed": seed,
        },
        Options,
        tables={"engine": EngineSettings},
    )
    chosen = Options(
        data=[folder for root in data for folder in find_sets(root)],
        **taken(settings, Options),
        cache=cache or output / "matches",
    )
    engine = options.engine_of(settings, workers, otherwise=1)
    run = _run_all if name == ALL else _run_one
    run(name, chosen, engine, output, as_json, quiet or as_json)


def _print_list() -> None:
    from semisure.bench import BENCHES

    width = max(map(len, BENCHES))
    for entry in BENCHES.values():
        typer.echo(
            f"{entry.name:<{width}}  {entry.paper}: {entry.what}; needs {entry.needs}"
        )
    typer.echo(f"{ALL:<{width}}  all of these that the data allow, on one page")


def _run_one(
    name: str, chosen: Any, engine: Any, output: Path, as_json: bool, quiet: bool
) -> None:
    from semisure.bench.files import document, text_of, write_outcome
    from semisure.bench.run import run_bench

    with stages(quiet) as begin:
        outcome = run_bench(name, chosen, engine=engine, tick=begin)
    write_outcome(name, chosen, outcome, output)
    if as_json:
        _print_json(document(name, chosen, outcome))
    if not quiet:
        typer.echo(text_of(outcome))
        typer.echo(f"Wrote {output / name}.txt, CSV, JSON and figures.")


def _run_all(
    name: str, chosen: Any, engine: Any, output: Path, as_json: bool, quiet: bool
) -> None:
    from semisure.bench.files import document, text_of, write_all
    from semisure.bench.run import run_all

    with stages(quiet) as begin:
        everything = run_all(chosen, engine=engine, tick=begin)
    outcomes, skipped = everything.outcomes, everything.skipped
    page = write_all(chosen, everything, output)
    if as_json:
        documents = {n: document(n, chosen, one) for n, one in outcomes.items()}
        _print_json({"page": str(page), "benches": documents, "skipped": skipped})
    if quiet:
        return
    for outcome in outcomes.values():
        typer.echo(text_of(outcome))
    for bench_name, reason in skipped.items():
        typer.echo(f"Skipped {bench_name}: {reason}")
    typer.echo(f"Open {page.resolve()} in a browser for the figures.")


def _print_json(content: Any) -> None:
    from semisure.io.atomic import as_json

    typer.echo(as_json(content).decode(), nl=False)

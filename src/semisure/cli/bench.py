"""`semisure bench`: the paper's tables and figures on your data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from semisure.cli import command, options
from semisure.cli.config import engine_of, pick, settings_of
from semisure.cli.options import option
from semisure.cli.progress import stages

ALL = "all"
OTHERS = "others"


def _benches(incomplete: str) -> list[str]:
    from semisure.bench import BENCHES

    return [name for name in (*BENCHES, ALL) if name.startswith(incomplete)]


@command(
    epilog="Example: `semisure bench homography --data hpatches-sequences-release "
    "--matcher xfeat-star --workers 4 -o results`"
)
def bench(
    name: Annotated[
        str | None,
        typer.Argument(help="Default: list all.", autocompletion=_benches),
    ] = None,
    data: Annotated[
        list[Path] | None,
        option("A data set, or a folder of data sets; repeatable.", metavar="FOLDER"),
    ] = None,
    output: options.OutputFolder = Path("bench"),
    matcher: Annotated[
        list[str] | None,
        options.one_of(options.MATCHERS, "Matcher, by default daisy; repeatable"),
    ] = None,
    estimator: options.EstimatorName = None,
    calibration: options.CalibrationName = None,
    calibrate_on: Annotated[
        Path | None,
        option(
            "Fit the laws to 200 held-out pairs of this folder, as the paper does; "
            f"{OTHERS}: to the data's other sequences or scenes."
        ),
    ] = None,
    size: Annotated[
        Any, options.size("Resize images to this instead of the paper's size.")
    ] = None,
    views: Annotated[
        int | None,
        option("Replace each second image by this many random views of it.", min=0),
    ] = None,
    limit: Annotated[
        int | None,
        option("Largest number of pairs or queries of a folder, spread evenly."),
    ] = None,
    cache: Annotated[
        Path | None,
        option("Folder of stored matches; default: OUTPUT/matches."),
    ] = None,
    workers: Annotated[
        int | None,
        option("Processes; default: one, as timings depend on it.", min=1),
    ] = None,
    device: options.Device = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Reproduce a table or figure of the paper, with its numbers beside ours.

    Matches are stored: after an interruption, run it again to continue.
    Writes text, CSV, JSON, PNG and SVG. A file for --config may set the fields of
    `semisure.bench.options.Options`, and the engine in its table [engine].
    """
    arguments = {**locals(), "matchers": tuple(matcher) if matcher else None}
    if str(calibrate_on) == OTHERS:
        arguments |= {"calibrate_on": None, "cross_validate": True}
    if name is None:
        _print_list()
        return
    from semisure.bench import BENCHES
    from semisure.types import as_choice

    as_choice("The bench", name, (*BENCHES, ALL))
    if not data:
        raise typer.BadParameter("say where the data are: --data FOLDER")
    from semisure.bench.options import Options
    from semisure.datasets.layouts import find_sets
    from semisure.io.atomic import check_output_folder

    check_output_folder(output)
    settings = settings_of(arguments, Options, engine=True)
    chosen = Options(
        data=[folder for root in data for folder in find_sets(root)],
        **pick(settings, Options),
        cache=cache or output / "matches",
    )
    engine = engine_of(settings, workers, otherwise=1)
    _run(name, chosen, engine, output, as_json, quiet or as_json)


def _print_list() -> None:
    from semisure.bench import BENCHES

    width = max(map(len, BENCHES))
    for entry in BENCHES.values():
        typer.echo(
            f"{entry.name:<{width}}  {entry.paper}: {entry.what}; needs {entry.needs}"
        )
    typer.echo(f"{ALL:<{width}}  all benches that the data allow, on one page")


def _run(
    name: str, chosen: Any, engine: Any, output: Path, as_json: bool, quiet: bool
) -> None:
    """Run and write one bench, or all of them with a page; print text or JSON."""
    from semisure.bench.files import document, text_of, write_all, write_outcome
    from semisure.bench.run import run_all, run_bench

    skipped: dict[str, str] = {}
    with stages(quiet) as begin:
        if name == ALL:
            outcomes, skipped = run_all(chosen, engine=engine, tick=begin)
        else:
            outcomes = {name: run_bench(name, chosen, engine=engine, tick=begin)}
    documents = {n: document(n, chosen, one) for n, one in outcomes.items()}
    if name == ALL:
        page = write_all(chosen, outcomes, skipped, output)
        printed = {"page": str(page), "benches": documents, "skipped": skipped}
        last = f"Open {page.resolve()} in a browser for the figures."
    else:
        write_outcome(name, chosen, outcomes[name], output)
        printed = documents[name]
        last = f"Wrote {output / name}.txt, CSV, JSON and the figures, if any."
    if as_json:
        from semisure.io.atomic import as_json as json_bytes

        typer.echo(json_bytes(printed).decode(), nl=False)
    if quiet:
        return
    for outcome in outcomes.values():
        typer.echo(text_of(outcome))
    for skipped_name, reason in skipped.items():
        typer.echo(f"Skipped {skipped_name}: {reason}")
    typer.echo(last)

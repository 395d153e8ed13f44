"""`semisure bench`: the paper's tables and figures on your data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semisure.cli.app import app
from semisure.cli.options import (
    AsJson,
    CalibrationName,
    Device,
    EstimatorName,
    Quiet,
    Seed,
    WeightsFile,
    complete_matchers,
    parse_size,
)
from semisure.cli.progress import stages

if TYPE_CHECKING:
    from semisure.bench.options import Options

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
        str | None, typer.Argument(help="See --list.", autocompletion=_benches)
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="A data set, or a folder of such; repeatable."),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder of results.")
    ] = Path("bench"),
    matcher: Annotated[
        list[str] | None,
        typer.Option(
            help="Default: daisy; may be repeated.", autocompletion=complete_matchers
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="hpatches (1280x960; 1, 3, 5, 10 px) or mtv (960x640; 10 to 100 px); "
            "default: mtv for folders named mtv or thermal."
        ),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Bring images to WxH, not the paper's size.")
    ] = None,
    max_side: Annotated[
        int | None, typer.Option(help="The matcher looks at this at most, px.")
    ] = None,
    estimator: EstimatorName = "ransac",
    threshold_px: Annotated[
        float | None,
        typer.Option("--threshold", help="Of inliers, px; default: the bench's own."),
    ] = None,
    calibration: CalibrationName = None,
    calibrate_on: Annotated[
        Path | None,
        typer.Option(help="Fit to 200 pairs of this folder, as the paper does."),
    ] = None,
    native: Annotated[
        list[str] | None,
        typer.Option(
            help="Another matcher's uncertainties; repeatable.", metavar="NAME=FOLDER"
        ),
    ] = None,
    views: Annotated[
        int, typer.Option(help="Random views of each second image instead of it.")
    ] = 0,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Leave out pairs that cannot be read.")
    ] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Of matches; default: OUTPUT/matches.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Pairs or queries of a folder, taken evenly."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes.")] = 1,
    device: Device = None,
    weights: WeightsFile = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Name the benches and their needs.")
    ] = False,
) -> None:
    """Repeat a table or figure of the paper, its numbers beside ours.

    Matches are exported once and kept; evaluation runs no network. Interrupted, the
    command goes on where it stopped. Writes text, CSV, JSON, PNG and SVG.
    """
    from semisure.bench import BENCHES, check_name

    if listed or name is None:
        width = max(map(len, BENCHES))
        for entry in BENCHES.values():
            typer.echo(
                f"{entry.name:<{width}}  {entry.paper}: {entry.what}; "
                f"needs {entry.needs}"
            )
        typer.echo(f"{ALL:<{width}}  all of these that the data allow, on one page")
        return
    if name != ALL:
        check_name(name)
    if not data:
        raise typer.BadParameter("say where the data are: --data FOLDER")
    from semisure.bench.options import Options
    from semisure.bench.run import document, run_bench, text_of, write_outcome
    from semisure.datasets.layouts import find_sets

    options = Options(
        data=[found for root in data for found in find_sets(root)],
        matchers=tuple(matcher or ["daisy"]),
        protocol=protocol,  # type: ignore[arg-type]
        calibrate_on=calibrate_on,
        native=_named_folders(native or []),
        views=views,
        keep_going=keep_going,
        size=parse_size(size),
        max_side=max_side,
        weights=weights,
        device=device,
        estimator=estimator,
        threshold_px=threshold_px,
        calibration=calibration,
        cache=cache or output / "matches",
        limit=limit,
        seed=seed,
    )
    quiet = quiet or as_json
    if name == ALL:
        _run_all(options, workers, output, as_json, quiet)
        return
    with stages(quiet) as tick:
        outcome = run_bench(name, options, count=workers, tick=tick)
    write_outcome(name, options, outcome, output)
    if as_json:
        _print_json(document(name, options, outcome))
    if not quiet:
        typer.echo(text_of(outcome))
        typer.echo(f"Wrote {output / name}.txt, CSV, JSON and figures.")


def _print_json(content: Any) -> None:
    from semisure.io.atomic import as_json

    typer.echo(as_json(content).decode(), nl=False)


def _named_folders(given: list[str]) -> dict[str, Path]:
    folders = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise typer.BadParameter(
                f"{text!r} is not NAME=FOLDER", param_hint="--native"
            )
        if not Path(folder).is_dir():
            raise typer.BadParameter(
                f"there is no folder {folder}", param_hint="--native"
            )
        folders[name] = Path(folder)
    return folders


def _run_all(
    options: Options, workers: int, output: Path, as_json: bool, quiet: bool
) -> None:
    from semisure.bench.everything import run_all, write_all
    from semisure.bench.run import document, text_of

    with stages(quiet) as tick:
        done = run_all(options, count=workers, tick=tick)
    page = write_all(options, done, output)
    if as_json:
        made = {n: document(n, options, found) for n, found in done.outcomes.items()}
        _print_json({"page": str(page), "benches": made, "skipped": done.skipped})
    if quiet:
        return
    for outcome in done.outcomes.values():
        typer.echo(text_of(outcome))
    for name, reason in done.skipped.items():
        typer.echo(f"Skipped {name}: {reason}")
    typer.echo(f"Open {page.resolve()} in a browser for the figures.")

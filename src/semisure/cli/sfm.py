"""`semisure export` and `semisure reconstruct`: what a store of pairs is made into."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semisure.cli import options
from semisure.cli.config import settings_of, taken
from semisure.cli.progress import stages
from semisure.cli.root import app

if TYPE_CHECKING:
    from semisure.mapping.export import ExportSettings

StorePlace = Annotated[
    str, typer.Argument(metavar="STORE", help="What `semisure match-pairs` made.")
]
Images = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the images; default: where they were matched.", metavar="FOLDER"
    ),
]
Cameras = Annotated[
    Path | None,
    typer.Option(
        help="Lines: name MODEL WIDTH HEIGHT PARAMS…, as hloc's queries. Images that "
        "it does not name: by EXIF, else a guess of 1.2 times the longer side.",
        metavar="FILE",
    ),
]
SharedCamera = Annotated[
    bool,
    typer.Option(
        "--shared-camera", help="Images of equal intrinsics were taken by one camera."
    ),
]


@app.command(
    epilog="Example: `semisure export store --to hloc -o hloc`; queries against that "
    "map: `semisure export query-store --to hloc --reference hloc/features.h5 -o "
    "queries`; for COLMAP: `semisure export store --to colmap -o colmap`"
)
def export(
    store: StorePlace,
    to: Annotated[
        str,
        options.one_of(
            options.FORMATS,
            "Whose files: features.h5, matches.h5 and pairs.txt, a database.db, or "
            "pairs.csv and matches.csv",
        ),
    ],
    output: options.OutputFolder,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Keypoints that stay as they are: hloc's features, or the folder of a "
            "COLMAP model. Images that it does not have get new ones.",
            metavar="FILE|FOLDER",
        ),
    ] = None,
    calibration: options.CalibrationName = None,
    images: Images = None,
    cameras: Cameras = None,
    shared_camera: SharedCamera = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Write a store of matched pairs as files that hloc, COLMAP or anyone can read.

    Semi-dense matches become keypoints that several pairs share. Matches that the model
    of their pair does not explain are left out, and so are pairs without a model that
    may be right. CSV has all matches as they are. -c is for the store of `localize
    --matches`, which has no calibration of its own. A file for --config may set the
    fields of `semisure.mapping.export.ExportSettings`.
    """
    from semisure.io.atomic import check_output_folder
    from semisure.mapping.export import FORMATS, ExportSettings
    from semisure.mapping.export import export as run
    from semisure.types import as_choice

    check_output_folder(output)
    given = {
        "reference": reference,
        "calibration": calibration,
        "images": images,
        "cameras": cameras,
        "shared_camera": shared_camera or None,
    }
    settings = _export_settings(settings_of(config, given, ExportSettings))
    with stages(quiet or as_json) as begin:
        tick = begin("Reading pairs")
        made = run(store, as_choice("to", to, FORMATS), output, settings, tick)
    if as_json:
        files = [str(file) for file in made.files]
        typer.echo(json.dumps({**asdict(made), "files": files}, indent=2))
    elif not quiet:
        typer.echo(made.summary())


@app.command(
    epilog="Example: `semisure reconstruct store -o sfm`, of what `match-pairs` made; "
    "frames of a video: `semisure reconstruct store --shared-camera -o sfm`; open "
    "sfm/model in COLMAP's viewer"
)
def reconstruct(
    store: StorePlace,
    output: options.OutputFolder,
    mapper: Annotated[
        str | None,
        options.one_of(
            options.MAPPERS,
            "pycolmap's mapper, by default incremental; the global one is faster with "
            "many images",
        ),
    ] = None,
    images: Images = None,
    cameras: Cameras = None,
    shared_camera: SharedCamera = False,
    workers: Annotated[
        int | None, typer.Option(help="Threads; −1, the default: all.", metavar="N")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Reconstruct cameras and points from a store of matched pairs, by pycolmap.

    Writes model/ (COLMAP's binary files), database.db and report.json. A file for
    --config may set the fields of `semisure.mapping.reconstruct.ReconstructionSettings`
    and `semisure.mapping.export.ExportSettings`. Exit code 3: some images could not be
    registered; the report names them.
    """
    from semisure.io.atomic import check_output_folder
    from semisure.mapping.export import ExportSettings
    from semisure.mapping.reconstruct import ReconstructionSettings
    from semisure.mapping.reconstruct import reconstruct as run

    check_output_folder(output)
    given = {
        "mapper": mapper,
        "images": images,
        "cameras": cameras,
        "shared_camera": shared_camera or None,
        "workers": workers,
    }
    settings = settings_of(config, given, ExportSettings, ReconstructionSettings)
    chosen = ReconstructionSettings(
        export=_export_settings(settings), **taken(settings, ReconstructionSettings)
    )
    with stages(quiet or as_json) as begin:
        result = run(store, output, chosen, begin)
    if as_json:
        document = {**asdict(result), "folder": str(result.folder)}
        typer.echo(json.dumps(document, indent=2))
    elif not quiet:
        typer.echo(result.summary())
        for name in result.lost:
            typer.echo(f"  not registered: {name}")
    if result.lost:
        raise typer.Exit(options.NOT_ALL)


def _export_settings(settings: dict[str, Any]) -> ExportSettings:
    from semisure.io.files import load_calibration
    from semisure.io.hloc import read_queries
    from semisure.mapping.export import ExportSettings

    chosen = taken(settings, ExportSettings)
    if "cameras" in settings:
        chosen["cameras"] = read_queries(settings["cameras"])
    if "calibration" in chosen:
        chosen["calibration"] = load_calibration(chosen["calibration"])
    return ExportSettings(**chosen)

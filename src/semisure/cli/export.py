"""`semisure export`: a store in hloc's, COLMAP's or plain files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from semisure.cli import choices, options, sfm_options
from semisure.cli.progress import stages
from semisure.cli.root import app


@app.command(
    epilog="Example: `semisure export store --to hloc -o hloc`; queries against that "
    "map: `semisure export query-store --to hloc --reference hloc/features.h5 -o "
    "queries`; for COLMAP: `semisure export store --to colmap -o colmap`"
)
def export(
    store: sfm_options.StorePlace,
    to: Annotated[
        str,
        choices.one_of(
            choices.FORMATS,
            "Whose files: features.h5, matches.h5 and pairs.txt, a database.db, or "
            "pairs.csv and matches.csv",
        ),
    ],
    output: sfm_options.OutputFolder,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Keypoints that stay as they are: hloc's features, or the folder of a "
            "COLMAP model. Images that it does not have get new ones.",
            metavar="FILE|FOLDER",
        ),
    ] = None,
    calibration: options.CalibrationName = None,
    images: sfm_options.Images = None,
    cameras: sfm_options.Cameras = None,
    shared_camera: sfm_options.SharedCamera = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a store of matched pairs as files that hloc, COLMAP or anyone can read.

    Semi-dense matches become keypoints that several pairs share. Matches that the model
    of their pair does not explain are left out, and so are pairs without a model that
    may be right. CSV has all matches as they are. -c is for what `localize --matches`
    kept, which has no calibration of its own.
    """
    from semisure.io.atomic import check_output_folder
    from semisure.io.files import load_calibration
    from semisure.mapping.export import FORMATS
    from semisure.mapping.export import export as run
    from semisure.types import as_choice

    check_output_folder(output)
    settings = sfm_options.export_settings(
        cameras,
        images=images,
        shared_camera=shared_camera,
        reference=reference,
        calibration=None if calibration is None else load_calibration(calibration),
    )
    with stages(quiet or as_json) as begin:
        tick = begin("Reading pairs")
        made = run(store, as_choice("to", to, FORMATS), output, settings, tick)
    if as_json:
        files = [str(file) for file in made.files]
        typer.echo(json.dumps({**asdict(made), "files": files}, indent=2))
    elif not quiet:
        typer.echo(made.summary())

"""`semisure reconstruct`: a store as a COLMAP model."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from semisure.cli import choices, options, sfm_options
from semisure.cli.progress import stages
from semisure.cli.root import app

NOT_ALL = 3  # exit code


@app.command(
    epilog="Example: `semisure reconstruct store -o sfm`, of what `match-pairs` made; "
    "frames of a video: `semisure reconstruct store --shared-camera -o sfm`; open "
    "sfm/model in COLMAP's viewer"
)
def reconstruct(
    store: sfm_options.StorePlace,
    output: sfm_options.OutputFolder,
    mapper: Annotated[
        str,
        choices.one_of(
            choices.MAPPERS,
            "pycolmap's mapper; the global one is faster with many images",
        ),
    ] = "incremental",
    images: sfm_options.Images = None,
    cameras: sfm_options.Cameras = None,
    shared_camera: sfm_options.SharedCamera = False,
    fixed_cameras: Annotated[
        bool,
        typer.Option("--fixed-cameras", help="Keep focal lengths and lenses as given."),
    ] = False,
    workers: Annotated[int, typer.Option(help="Threads; −1: all.", metavar="N")] = -1,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Reconstruct cameras and points from a store of matched pairs, by pycolmap.

    Writes model/ (COLMAP's binary files), database.db and report.json. Exit code 3:
    some images could not be registered; the report names them.
    """
    from semisure.io.atomic import check_output_folder
    from semisure.mapping.reconstruct import MAPPERS, ReconstructionSettings
    from semisure.mapping.reconstruct import reconstruct as run
    from semisure.types import as_choice

    check_output_folder(output)
    settings = ReconstructionSettings(
        export=sfm_options.export_settings(
            cameras, images=images, shared_camera=shared_camera
        ),
        mapper=as_choice("mapper", mapper, MAPPERS),
        refine_cameras=not fixed_cameras,
        workers=workers,
        seed=seed,
    )
    with stages(quiet or as_json) as begin:
        made = run(store, output, settings, begin)
    if as_json:
        typer.echo(json.dumps({**asdict(made), "folder": str(made.folder)}, indent=2))
    elif not quiet:
        typer.echo(made.summary())
        for name in made.lost:
            typer.echo(f"  not registered: {name}")
    if made.lost:
        raise typer.Exit(NOT_ALL)

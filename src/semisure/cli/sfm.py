"""`semisure export` and `semisure reconstruct`: files and models from a store."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from semisure.cli import command, options
from semisure.cli.config import pick, settings_of
from semisure.cli.options import option
from semisure.cli.progress import stages

if TYPE_CHECKING:
    from semisure.mapping.export import ExportSettings

StorePlace = Annotated[
    str, typer.Argument(metavar="STORE", help="Written by `semisure match-pairs`.")
]
Images = Annotated[
    Path | None, option("Folder of the images; default: where they were matched.")
]
Cameras = Annotated[
    Path | None,
    option(
        "Lines: name MODEL WIDTH HEIGHT PARAMS…, as hloc's queries. Other images: "
        "focal length by EXIF, else 1.2 times the longer side."
    ),
]
SharedCamera = Annotated[
    bool,
    option("Images of equal intrinsics were taken by one camera.", "--shared-camera"),
]


@command(
    epilog="Example: `semisure export store --to hloc -o hloc`; queries against that "
    "map: `semisure export query-store --to hloc --reference hloc/features.h5 -o "
    "queries`; for COLMAP: `semisure export store --to colmap -o colmap`"
)
def export(
    store: StorePlace,
    to: Annotated[
        Literal["hloc", "colmap", "csv"],
        option(
            "Files of hloc (features.h5, matches.h5, pairs.txt), colmap (database.db) "
            "or csv (pairs.csv, matches.csv).",
            metavar="NAME",
        ),
    ],
    output: options.OutputFolder,
    reference: Annotated[
        Path | None,
        option(
            "Keypoints to keep unchanged: hloc's features, or the folder of a COLMAP "
            "model. Images that are not in it get new ones."
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

    Semi-dense matches become keypoints that several pairs share. Outliers of a pair's
    model are left out, and so are pairs without a model that may be right. CSV has all
    matches, unchanged. -c is for the store of `localize --matches`, which contains no
    calibration. A file for --config may set the fields of
    `semisure.mapping.export.ExportSettings`.
    """
    arguments = locals()
    from semisure.io.atomic import check_output_folder
    from semisure.mapping.export import ExportSettings
    from semisure.mapping.export import export as run

    check_output_folder(output)
    chosen = _export_settings(settings_of(arguments, ExportSettings), cameras)
    with stages(quiet or as_json) as begin:
        result = run(store, to, output, chosen, begin("Reading pairs"))
    _print(result, as_json, quiet)


@command(
    epilog="Example: `semisure reconstruct store -o sfm`, a store of `match-pairs`; "
    "frames of a video: `semisure reconstruct store --shared-camera -o sfm`; open "
    "sfm/model in COLMAP's viewer"
)
def reconstruct(
    store: StorePlace,
    output: options.OutputFolder,
    images: Images = None,
    cameras: Cameras = None,
    shared_camera: SharedCamera = False,
    workers: Annotated[int | None, option("Threads; −1, the default: all.")] = None,
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
    arguments = locals()
    from semisure.io.atomic import check_output_folder
    from semisure.mapping.export import ExportSettings
    from semisure.mapping.reconstruct import ReconstructionSettings
    from semisure.mapping.reconstruct import reconstruct as run

    check_output_folder(output)
    settings = settings_of(arguments, ExportSettings, ReconstructionSettings)
    chosen = ReconstructionSettings(
        export=_export_settings(settings, cameras),
        **pick(settings, ReconstructionSettings),
    )
    with stages(quiet or as_json) as begin:
        result = run(store, output, chosen, begin)
    _print(result, as_json, quiet)
    for name in () if as_json or quiet else result.lost:
        typer.echo(f"  not registered: {name}")
    if result.lost:
        raise typer.Exit(options.NOT_ALL)


def _export_settings(settings: dict[str, Any], cameras: Path | None) -> ExportSettings:
    from semisure.io.files import load_calibration
    from semisure.io.hloc import read_queries
    from semisure.mapping.export import ExportSettings

    chosen = pick(settings, ExportSettings)
    if cameras is not None:
        chosen["cameras"] = read_queries(cameras)
    if "calibration" in chosen:
        chosen["calibration"] = load_calibration(chosen["calibration"])
    return ExportSettings(**chosen)


def _print(result: Any, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(result), indent=2, default=str))  # paths are text
    elif not quiet:
        typer.echo(result.summary())

"""The options that `semisure export` and `semisure reconstruct` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from semisure.mapping.export import ExportSettings


StorePlace = Annotated[
    str, typer.Argument(metavar="STORE", help="What `semisure match-pairs` made.")
]
OutputFolder = Annotated[
    Path, typer.Option("-o", "--output", help="Folder for the files.")
]
Images = Annotated[
    Path | None,
    typer.Option(help="Folder of the images; default: where they were matched."),
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


def export_settings(cameras: Path | None, **settings: Any) -> ExportSettings:
    """The settings that these options mean."""
    from semisure.io.hloc import read_queries
    from semisure.mapping.export import ExportSettings

    return ExportSettings(
        cameras=None if cameras is None else read_queries(cameras), **settings
    )

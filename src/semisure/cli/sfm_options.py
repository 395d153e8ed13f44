"""The options that `semisure export` and `semisure reconstruct` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import choices

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
Cell = Annotated[
    float | None,
    typer.Option(
        help="At most one keypoint in a square of this side; default: half the window "
        "of the matcher's fine stage, some 4 px of an image as it was matched.",
        metavar="PX",
        callback=choices.positive,
    ),
]
Placement = Annotated[
    str,
    choices.one_of(
        choices.PLACEMENTS,
        "Keypoints are moved until all matches of a track agree, or stay at the mean "
        "of the points near them, which needs less memory",
    ),
]
MaxKeypoints = Annotated[
    int | None,
    typer.Option(help="Largest number of keypoints in an image.", metavar="N"),
]


def export_settings(
    *,
    cell: float | None,
    placement: str,
    max_keypoints: int | None,
    cameras: Path | None = None,
    images: Path | None = None,
    shared_camera: bool = False,
    reference: Path | None = None,
    pairs: Path | None = None,
    calibration: str | None = None,
) -> ExportSettings:
    """The settings that these options mean."""
    from semisure.io.files import load_calibration
    from semisure.io.hloc import read_queries
    from semisure.mapping.aggregation import PLACEMENTS, AggregationSettings
    from semisure.mapping.export import ExportSettings
    from semisure.types import as_choice

    return ExportSettings(
        aggregation=AggregationSettings(
            cell_px=cell,
            placement=as_choice("placement", placement, PLACEMENTS),
            max_keypoints=max_keypoints,
        ),
        reference=reference,
        cameras=None if cameras is None else read_queries(cameras),
        images=images,
        shared_camera=shared_camera,
        pairs=pairs,
        calibration=None if calibration is None else load_calibration(calibration),
    )

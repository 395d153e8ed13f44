"""Intrinsics from the command line: values, a file, a field of view, or EXIF."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from semisure.types import Matrix3

Intrinsics = Annotated[
    list[str] | None,
    typer.Option(
        "--intrinsics",
        help="fx,fy,cx,cy in px, or a 3 × 3 text file; twice if the cameras differ.",
        metavar="VALUES|FILE",
    ),
]
FieldOfView = Annotated[
    float | None,
    typer.Option(
        "--fov",
        help="Field of view along the longer side, in place of --intrinsics.",
        metavar="DEG",
    ),
]
FromExif = Annotated[
    bool,
    typer.Option(
        "--focal-from-exif", help="Focal length from EXIF, in place of --intrinsics."
    ),
]
WAYS = "--intrinsics, --fov and --focal-from-exif"


def check_given(
    model: str, values: list[str] | None, fov: float | None, exif: bool
) -> None:
    """Raise one sentence unless exactly one way is used where intrinsics are needed."""
    used = sum((bool(values), fov is not None, exif))
    if used > 1:
        raise typer.BadParameter(f"{WAYS} exclude each other; give one")
    if model == "essential" and not used:
        raise typer.BadParameter(
            f"an essential matrix needs intrinsics; give one of {WAYS}"
        )
    if values and len(values) > 2:
        raise typer.BadParameter("--intrinsics can be given once or twice")
    if fov is not None and not 0 < fov < 180:
        raise typer.BadParameter(f"--fov must lie between 0 and 180, but is {fov:g}")


def cameras(
    values: list[str] | None,
    fov: float | None,
    exif: bool,
    files: tuple[Path, Path],
    sizes: tuple[tuple[int, int], tuple[int, int]],
) -> tuple[Matrix3 | None, Matrix3 | None]:
    """K0 and K1 of two images, or None where no intrinsics were given."""
    if values:
        return parse(values[0]), parse(values[-1])
    from semisure.io.intrinsics import intrinsics_of

    first, second = (
        intrinsics_of(size, fov=fov, exif_of=file if exif else None)
        for file, size in zip(files, sizes, strict=True)
    )
    return first, second


def parse(text: str) -> Matrix3:
    """K of "fx,fy,cx,cy", or of a file of 3 × 3 numbers."""
    from semisure.errors import InputError
    from semisure.io.intrinsics import intrinsics_of

    try:
        K = intrinsics_of((1, 1), text)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None
    assert K is not None
    return K

"""The options that several commands share, and the names that their values may have.

The names stand here once more so that help and completion load nothing; a test holds
them to the code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from semisure.engine import EngineSettings

NOT_ALL = 3  # exit code: no model, queries without a pose, pairs that failed

MATCHERS = (
    "daisy",
    "xfeat-star",
    "xfeat-star-raw",
    "loftr",
    "loftr-indoor",
    "loftr-indoor-new",
    "eloftr",
    "gim-loftr",
    "comatch",
    "edm",
)
ESTIMATORS = (
    "ransac",
    "lo-ransac",
    "prosac",
    "gc-ransac",
    "magsac++",
    "poselib",
)
METHODS = (
    "core+",
    "core",
    "core-guarded",
    "uniform",
    "binary",
    "huber",
    "laplace-laplace",
    "confidence",
    "fine-std",
    "fine-std-inliers",
    "fine-std-blind",
)
MODELS = ("auto", "homography", "fundamental", "essential")
GEOMETRIES = (*MODELS, "none")
LAWS = (
    "mixture",
    "fine_only",
    "gaussian",
    "uncalibrated",
    "no_confidence_gate",
    "hard_gate",
)
OPTIMISERS = ("newton", "powell")
FORMATS = ("hloc", "colmap", "csv")
MAPPERS = ("incremental", "global")
DEVICES = ("cpu", "cuda", "mps")

FILES_HELP = """
A file of matches is an NPZ with the arrays **source**, **target**, **fine_std**,
**coarse_std** (n × 2, px), **confidence** (n), **source_size**, **target_size**
(width, height) and, where needed, **side** (0 or 1: the image that was refined; else
1), **fine_window** (px; else 8) and **cell** (n × 2 × 3, px: the coarse cell that was
chosen), or a CSV with the columns x0, y0, x1, y1, confidence, fine_std_x, fine_std_y,
coarse_std_x, coarse_std_y [, width0, height0, width1, height1, side, fine_window,
cell_xx, cell_xy, cell_x, cell_yx, cell_yy, cell_y]. Matches are raw, as the matcher
gave them.
"""

Value = TypeVar("Value", str, list[str], None)


def one_of(names: Sequence[str], words: str, *flags: str) -> Any:
    """An option that takes one of `names`; `words` say of what, for the help."""
    return typer.Option(
        *flags,
        help=f"{words}: {listed(names)}.",
        metavar="NAME",
        callback=checked(names),
        autocompletion=completing(names),
    )


def listed(names: Sequence[str]) -> str:
    """Names for a sentence.

    >>> listed(("a", "b", "c"))
    'a, b or c'
    """
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def checked(names: Sequence[str]) -> Callable[[Value], Value]:
    """A callback that refuses, as wrong usage, what is none of `names`.

    A matcher's name may end in ``+full``.
    """

    def check(value: Value) -> Value:
        given: list[str] = [value] if isinstance(value, str) else value or []
        for name in given:
            if name.removesuffix("+full") not in names:
                from semisure.types.checks import did_you_mean

                raise typer.BadParameter(
                    f"{name!r} is not {listed(names)}.{did_you_mean(name, names)}"
                )
        return value

    return check


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """What a shell asks for the names that begin with what was typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def complete_calibrations(incomplete: str) -> list[str]:
    """Shipped calibrations, then files and folders as the shell would offer them."""
    from glob import escape, glob

    from semisure.io.files import SHIPPED

    shipped = sorted(path.stem for path in SHIPPED.glob("*.json"))
    paths = sorted(glob(f"{escape(incomplete)}*"))  # noqa: PTH207
    folders = [f"{path}/" for path in paths if Path(path).is_dir()]
    files = [path for path in paths if path.endswith(".json")]
    return [*completing(shipped)(incomplete), *folders, *files]


def _no_bars(wanted: bool) -> bool:
    if wanted:  # worker processes inherit it
        os.environ["SEMISURE_QUIET"] = "1"
    return wanted


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file of all other settings, by the names that they have in Python.",
        metavar="FILE",
    ),
]
MatcherName = Annotated[
    str | None, one_of(MATCHERS, "Matcher, by default daisy", "--matcher")
]
MatcherNames = Annotated[
    list[str] | None,
    one_of(MATCHERS, "Matcher, by default daisy; repeatable", "--matcher"),
]
CalibrationName = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--calibration",
        help="Calibration file, or the name of a shipped one; default: the matcher's "
        "own, made on first use where none is shipped.",
        metavar="FILE|NAME",
        autocompletion=complete_calibrations,
    ),
]
EstimatorName = Annotated[
    str | None,
    one_of(ESTIMATORS, "Robust estimator of the initial model", "-e", "--estimator"),
]
ModelName = Annotated[
    str | None,
    one_of(MODELS, "Model of the pair; by default, auto, the matches decide"),
]
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
Images = Annotated[
    Path | None, typer.Option(help="Folder of the images.", metavar="FOLDER")
]
Output = Annotated[
    Path, typer.Option("-o", "--output", help="Calibration (JSON).", metavar="FILE")
]
OutputFolder = Annotated[
    Path, typer.Option("-o", "--output", help="Folder of results.", metavar="FOLDER")
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Device for networks: cpu, cuda or mps.",
        metavar="DEVICE",
        autocompletion=completing(DEVICES),
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        help="Number of processes; 0: this process alone.",
        metavar="N",
    ),
]
Report = Annotated[
    Path | None, typer.Option(help="Write an HTML report, one file.", metavar="FILE")
]
Size = Annotated[
    str | None,
    typer.Option(help="Image size, for files that do not hold it.", metavar="WxH"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", callback=_no_bars)]
Quiet = Annotated[
    bool,
    typer.Option("-q", "--quiet", help="Print only errors.", callback=_no_bars),
]


def warn(sentence: str | None) -> None:
    """Print a warning, if there is one, where it does not mix with results."""
    if sentence is not None:
        typer.echo(f"Warning: {sentence}", err=True)


def check_page(page: Path | None) -> list[Path]:
    """The page that was asked for, if it can be written."""
    from semisure.io.atomic import check_output

    if page is None:
        return []
    check_output(page, (".html", ".htm"))
    return [page]


def check_calibration(output: Path, inputs: Sequence[Path], *pages: Path) -> None:
    """Raise before the work starts if a calibration could not be written."""
    from semisure.io.atomic import check_not_inputs, check_output

    check_output(output, (".json",))
    check_not_inputs([output, *pages], inputs)


def parse_size(text: str | None) -> tuple[int, int] | None:
    """(width, height) of "640x480"."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r} is not WIDTHxHEIGHT, such as 640x480")
    return int(parts[0]), int(parts[1])


def engine_of(
    settings: Mapping[str, Any], workers: int | None, *, otherwise: int | None = None
) -> EngineSettings:
    """The engine of the config's table and of --workers.

    Where neither says how many processes, there are as many as `otherwise`, or as the
    engine likes.
    """
    from semisure.engine import EngineSettings

    table = dict(settings.get("engine", {}))
    if workers is not None:
        table["workers"] = workers
    if "workers" not in table and table.get("kind", "local") == "local":
        table["workers"] = otherwise
    return EngineSettings(**table)

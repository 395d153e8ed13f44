"""From a store to a model: keypoints, COLMAP's database, pycolmap's mapping."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from semisure.errors import FileError, FitError, InputError, in_short
from semisure.io.atomic import write_json
from semisure.io.colmap import pycolmap, quiet
from semisure.io.store import Store
from semisure.mapping.export import (
    DATABASE,
    ExportSettings,
    image_folder,
    keypoints_of,
    to_colmap,
)
from semisure.types import Tick, silent

Mapper = Literal["incremental", "global"]
MODEL, MODELS, REPORT = "model", "models", "report.json"
SMALLEST_MODEL = 3  # images
ALL = -1  # threads, as COLMAP says it
_TABLES = ("cameras", "images", "points3D", "frames", "rigs")
_OF_A_MODEL = {f"{table}{kind}" for table in _TABLES for kind in (".bin", ".txt")}
_OF_A_MODEL |= {"project.ini", "database.db"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconstructionSettings:
    """Keypoints and cameras, and what is asked of pycolmap."""

    export: ExportSettings = field(default_factory=ExportSettings)
    mapper: Mapper = "incremental"
    refine_cameras: bool = True  # focal length and lens; False keeps them
    workers: int = ALL  # threads
    seed: int = 0

    def __post_init__(self) -> None:
        if self.workers < 1 and self.workers != ALL:
            raise InputError(
                f"workers must be at least 1, or {ALL} for all, but is {self.workers}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstructed:
    """A model in figures; `folder` holds its files."""

    folder: Path
    images: int  # of the store
    registered: tuple[str, ...]
    lost: tuple[str, ...]
    points: int
    track_length: float
    reprojection_px: float

    def summary(self) -> str:
        """One sentence for people."""
        return (
            f"{len(self.registered)} of {self.images} images registered, "
            f"{self.points:,} points seen by {self.track_length:.1f} images each, mean "
            f"reprojection error {self.reprojection_px:.2f} px: {self.folder}"
        )


def reconstruct(
    address: str | Path,
    output: str | Path,
    settings: ReconstructionSettings | None = None,
    begin: Callable[[str], Tick] = lambda name: silent,
) -> Reconstructed:
    """A COLMAP model of the store at `address`, written to ``output/model``.

    Beside it are ``database.db``, all models that were found below ``models``, and
    ``report.json``. Models that are there are replaced; where those folders hold
    anything else, nothing is touched. `begin` is called with the name of each stage.

    >>> model = reconstruct("store", "sfm")  # doctest: +SKIP
    >>> model.summary()  # doctest: +SKIP
    '11 of 11 images registered, 10,091 points seen by 4.9 images each, mean
    reprojection error 0.70 px: sfm/model'
    """
    settings, output = settings or ReconstructionSettings(), Path(output)
    for folder in (MODELS, MODEL):
        check_replaceable(output / folder)
    store, database = Store.at(address), output / DATABASE
    matches = keypoints_of(store, settings.export, begin("Making keypoints"))
    to_colmap(store, database, matches, settings.export)
    images, tick = image_folder(store, settings.export), begin("Mapping")
    model = map_database(database, images, output / MODELS, settings, tick)
    part = _emptied(output / f".{MODEL}.part")
    try:
        model.write(str(part))
        shutil.rmtree(output / MODEL, ignore_errors=True)
        part.replace(output / MODEL)
    except (OSError, RuntimeError, ValueError) as error:  # pycolmap's are the latter
        raise _unwritable(output / MODEL, error) from None
    registered = sorted(model.images[key].name for key in model.reg_image_ids())
    made = Reconstructed(
        folder=output / MODEL,
        images=len(matches.sizes),
        registered=tuple(registered),
        lost=tuple(sorted({*matches.sizes} - {*registered})),
        points=model.num_points3D(),
        track_length=model.compute_mean_track_length(),
        reprojection_px=model.compute_mean_reprojection_error(),
    )
    write_json(output / REPORT, {**asdict(made), "folder": str(made.folder)})
    return made


def map_database(
    database: Path,
    images: Path,
    output: Path,
    settings: ReconstructionSettings,
    tick: Tick = silent,
) -> Any:
    """The largest model that pycolmap makes of a database: a Reconstruction.

    `output` gets a folder for each model found, in place of older ones. A database
    that no model can be made of raises :class:`semisure.FitError`.
    """
    library = pycolmap("COLMAP's mapper")
    if settings.mapper == "global" and not hasattr(library, "global_mapping"):
        raise InputError(
            f"pycolmap {library.__version__} has no global mapper; update it, or use "
            "--mapper incremental."
        )
    paths = str(database), str(images), str(_emptied(output))
    with quiet():
        if settings.mapper == "global":
            models = _global(library, paths, settings)
        else:
            models = _incremental(library, paths, settings, tick)
    seen = [model for model in models.values() if model.num_points3D()]
    if not seen:
        raise FitError(
            f"No model could be made of {database}: no two images have enough matches "
            "seen under different angles. Match more pairs, or give cameras."
        )
    return max(seen, key=lambda model: model.num_reg_images())


def _incremental(
    library: Any,
    paths: tuple[str, str, str],
    settings: ReconstructionSettings,
    tick: Tick,
) -> Any:
    database, images, _ = paths
    with library.Database.open(database) as opened:
        total = opened.num_images()
    registered = 0

    def step(count: int) -> None:
        nonlocal registered
        registered = min(registered + count, total)
        tick(registered, total)

    options = library.IncrementalPipelineOptions()
    options.min_model_size = SMALLEST_MODEL
    options.extract_colors = Path(images).is_dir()
    options.num_threads, options.random_seed = settings.workers, settings.seed
    options.ba_refine_focal_length = settings.refine_cameras
    options.ba_refine_extra_params = settings.refine_cameras
    options.mapper.abs_pose_refine_focal_length = settings.refine_cameras
    options.mapper.abs_pose_refine_extra_params = settings.refine_cameras
    return library.incremental_mapping(
        *paths,
        options,
        initial_image_pair_callback=lambda: step(2),
        next_image_callback=lambda: step(1),
    )


def _global(
    library: Any, paths: tuple[str, str, str], settings: ReconstructionSettings
) -> Any:
    options = library.GlobalPipelineOptions()
    options.num_threads, options.random_seed = settings.workers, settings.seed
    adjustment = options.mapper.bundle_adjustment
    adjustment.refine_focal_length = settings.refine_cameras
    adjustment.refine_extra_params = settings.refine_cameras
    return library.global_mapping(*paths, options)


def check_replaceable(folder: Path) -> None:
    """Raise if `folder` is there and holds more than models of COLMAP's.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "0").mkdir()
    >>> (folder / "0" / "cameras.bin").touch()
    >>> check_replaceable(folder)
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise FileError(
            f"{folder} would be replaced by a folder, but is a file or a link. Choose "
            "another folder for the output."
        )
    for path in folder.rglob("*"):
        # One of several models has a folder named by its number.
        numbered = path.is_dir() and not path.is_symlink() and path.name.isdigit()
        if not numbered and path.name not in _OF_A_MODEL:
            raise FileError(
                f"{folder} would be replaced, but holds {path.relative_to(folder)}, "
                "which no reconstruction wrote. Choose another folder for the output."
            )


def _emptied(folder: Path) -> Path:
    """`folder`, new and empty."""
    check_replaceable(folder)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return folder


def _unwritable(folder: Path, error: Exception) -> FileError:
    return FileError(f"{folder} cannot be written: {in_short(error)}.")

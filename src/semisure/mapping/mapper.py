"""From a database to a model by pycolmap: incremental, or global where it has that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from semisure.errors import FitError, InputError
from semisure.mapping.folders import emptied
from semisure.mapping.library import pycolmap, quiet
from semisure.types import Tick, silent

Mapper = Literal["incremental", "global"]
MAPPERS: tuple[Mapper, ...] = get_args(Mapper)
SMALLEST_MODEL = 3  # images
ALL = -1  # threads, as COLMAP says it


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSettings:
    """What is asked of pycolmap; everything else is as it comes."""

    mapper: Mapper = "incremental"
    refine_cameras: bool = True  # focal length and lens; False keeps them
    workers: int = ALL  # threads
    seed: int = 0

    def __post_init__(self) -> None:
        if self.workers < 1 and self.workers != ALL:
            raise InputError(
                f"workers must be at least 1, or {ALL} for all, but is {self.workers}."
            )


def map_database(
    database: str | Path,
    images: str | Path,
    output: str | Path,
    settings: MappingSettings | None = None,
    tick: Tick = silent,
) -> Any:
    """The largest model that pycolmap makes of a database: a Reconstruction.

    `output` gets a folder for each model found, in place of older ones. A database
    that no model can be made of raises :class:`semisure.FitError`.
    """
    settings, output = settings or MappingSettings(), Path(output)
    library = pycolmap()
    if settings.mapper == "global" and not hasattr(library, "global_mapping"):
        raise InputError(
            f"pycolmap {library.__version__} has no global mapper; update it, or use "
            "--mapper incremental."
        )
    emptied(output)
    run = _global if settings.mapper == "global" else _incremental
    with quiet():
        models = run(library, str(database), str(images), str(output), settings, tick)
    seen = [model for model in models.values() if model.num_points3D()]
    if not seen:
        raise FitError(
            f"No model could be made of {database}: no two images have enough matches "
            "seen under different angles. Match more pairs, or give cameras."
        )
    return max(seen, key=lambda model: model.num_reg_images())


def _incremental(
    library: Any,
    database: str,
    images: str,
    output: str,
    settings: MappingSettings,
    tick: Tick,
) -> dict[int, Any]:
    with library.Database.open(database) as opened:
        total = opened.num_images()
    registered = [0]

    def step(count: int) -> None:
        registered[0] = min(registered[0] + count, total)
        tick(registered[0], total)

    options = library.IncrementalPipelineOptions()
    options.min_model_size = SMALLEST_MODEL
    options.extract_colors = Path(images).is_dir()
    options.num_threads, options.random_seed = settings.workers, settings.seed
    options.ba_refine_focal_length = settings.refine_cameras
    options.ba_refine_extra_params = settings.refine_cameras
    options.mapper.abs_pose_refine_focal_length = settings.refine_cameras
    options.mapper.abs_pose_refine_extra_params = settings.refine_cameras
    return dict(
        library.incremental_mapping(
            database,
            images,
            output,
            options,
            initial_image_pair_callback=lambda: step(2),
            next_image_callback=lambda: step(1),
        )
    )


def _global(
    library: Any,
    database: str,
    images: str,
    output: str,
    settings: MappingSettings,
    tick: Tick,
) -> dict[int, Any]:
    options = library.GlobalPipelineOptions()
    options.num_threads, options.random_seed = settings.workers, settings.seed
    adjustment = options.mapper.bundle_adjustment
    adjustment.refine_focal_length = settings.refine_cameras
    adjustment.refine_extra_params = settings.refine_cameras
    return dict(library.global_mapping(database, images, output, options))

"""From a store to a model: keypoints, COLMAP's database, pycolmap's mapping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from semisure.errors import FitError
from semisure.io.atomic import check_new, write_json
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

MODEL, MODELS, REPORT = "model", "models", "report.json"
SMALLEST_MODEL = 3  # images


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconstructionSettings:
    """Keypoints and cameras, and options of pycolmap."""

    export: ExportSettings = field(default_factory=ExportSettings)
    refine_cameras: bool = True  # focal length and lens; False keeps them
    workers: int = -1  # threads; −1: all
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstructed:
    """The size and accuracy of a model; `folder` holds its files."""

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
    ``report.json``. An output that exists already is an error. `begin` is called with
    the name of each stage.

    >>> model = reconstruct("store", "sfm")  # doctest: +SKIP
    >>> model.summary()  # doctest: +SKIP
    '11 of 11 images registered, 10,091 points seen by 4.9 images each, mean
    reprojection error 0.70 px: sfm/model'
    """
    settings, output = settings or ReconstructionSettings(), Path(output)
    for name in (DATABASE, MODELS, MODEL):
        check_new(output / name)
    store = Store.at(address)
    matches = keypoints_of(store, settings.export, begin("Making keypoints"))
    output.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=output, prefix=".") as folder:
        part = Path(folder)
        to_colmap(store, part / DATABASE, matches, settings.export)
        images, tick = image_folder(store, settings.export), begin("Mapping")
        model = map_database(part / DATABASE, images, part / MODELS, settings, tick)
        adjust_robustly(model, settings)
        (part / MODEL).mkdir()
        model.write(str(part / MODEL))
        for name in (DATABASE, MODELS, MODEL):
            (part / name).rename(output / name)
    registered = sorted(model.images[key].name for key in model.reg_image_ids())
    result = Reconstructed(
        folder=output / MODEL,
        images=len(matches.sizes),
        registered=tuple(registered),
        lost=tuple(sorted({*matches.sizes} - {*registered})),
        points=model.num_points3D(),
        track_length=model.compute_mean_track_length(),
        reprojection_px=model.compute_mean_reprojection_error(),
    )
    write_json(output / REPORT, {**asdict(result), "folder": str(result.folder)})
    return result


def map_database(
    database: Path,
    images: Path,
    output: Path,
    settings: ReconstructionSettings,
    tick: Tick = silent,
) -> Any:
    """The largest model that pycolmap makes of a database: a Reconstruction.

    `output`, a new folder, gets a folder for each model found. A database that no model
    can be made of raises :class:`semisure.FitError`.
    """
    library = pycolmap("COLMAP's mapper")
    with library.Database.open(str(database)) as opened:
        total = opened.num_images()
    registered = 0

    def step(count: int) -> None:
        nonlocal registered
        registered = min(registered + count, total)
        tick(registered, total)

    options = library.IncrementalPipelineOptions()
    options.min_model_size = SMALLEST_MODEL
    options.extract_colors = images.is_dir()
    options.num_threads, options.random_seed = settings.workers, settings.seed
    options.ba_refine_focal_length = settings.refine_cameras
    options.ba_refine_extra_params = settings.refine_cameras
    options.mapper.abs_pose_refine_focal_length = settings.refine_cameras
    options.mapper.abs_pose_refine_extra_params = settings.refine_cameras
    output.mkdir(parents=True)
    with quiet():
        models = library.incremental_mapping(
            str(database),
            str(images),
            str(output),
            options,
            initial_image_pair_callback=lambda: step(2),
            next_image_callback=lambda: step(1),
        )
    with_points = [model for model in models.values() if model.num_points3D()]
    if not with_points:
        raise FitError(
            "No model could be made: no two images have enough matches seen under "
            "different angles. Match more pairs, or give cameras."
        )
    return max(with_points, key=lambda model: model.num_reg_images())


def adjust_robustly(model: Any, settings: ReconstructionSettings) -> None:
    """One more bundle adjustment, with Cauchy's loss.

    Errors of semi-dense keypoints have heavier tails than least squares assumes.
    """
    library = pycolmap("COLMAP's bundle adjustment")
    options = library.BundleAdjustmentOptions()
    options.print_summary = False
    options.refine_focal_length = settings.refine_cameras
    options.refine_extra_params = settings.refine_cameras
    options.ceres.loss_function_type = library.LossFunctionType.CAUCHY
    options.ceres.loss_function_scale = model.compute_mean_reprojection_error()
    options.ceres.solver_options.num_threads = settings.workers
    config = library.BundleAdjustmentConfig()
    for key in model.reg_image_ids():
        config.add_image(key)
    config.fix_gauge(library.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    with quiet():
        library.create_default_bundle_adjuster(options, config, model).solve()
    model.update_point_3d_errors()

"""From a store to a model: keypoints, COLMAP's database, mapping, adjustment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from semisure.errors import FileError, in_short
from semisure.io.atomic import write_json
from semisure.io.store import Store
from semisure.mapping.adjustment import Adjusted, adjust
from semisure.mapping.database import read_covariances
from semisure.mapping.export import DATABASE, ExportSettings, aggregate_store, to_colmap
from semisure.mapping.folders import check_replaceable, emptied
from semisure.mapping.library import pyceres
from semisure.mapping.mapper import MappingSettings, map_database
from semisure.types import Tick, silent

MODEL, MODELS, REPORT = "model", "models", "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconstructionSettings:
    """Keypoints and cameras, the mapper, and whether covariances adjust its model."""

    export: ExportSettings = field(default_factory=ExportSettings)
    mapping: MappingSettings = field(default_factory=MappingSettings)
    covariances: bool = True


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
    adjusted: Adjusted | None = None

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

    >>> found = reconstruct("store", "sfm")  # doctest: +SKIP
    >>> found.summary()  # doctest: +SKIP
    '11 of 11 images registered, 10,091 points seen by 4.9 images each, mean
    reprojection error 0.70 px: sfm/model'
    """
    settings, output = settings or ReconstructionSettings(), Path(output)
    if settings.covariances:
        pyceres()  # raises now, not after hours
    store = Store.at(address)
    for folder in (MODELS, MODEL):
        check_replaceable(output / folder)
    database = output / DATABASE
    aggregated = aggregate_store(store, settings.export, begin("Making keypoints"))
    to_colmap(store, database, aggregated, settings.export)
    images = settings.export.images or Path(store.manifest.images or ".")
    tick = begin("Mapping")
    model = map_database(database, images, output / MODELS, settings.mapping, tick)
    adjusted = None
    if settings.covariances:
        begin("Adjusting with covariances")
        refine = settings.mapping.refine_cameras
        adjusted = adjust(model, read_covariances(database), refine_cameras=refine)
    _write_model(model, output / MODEL)
    found = _described(model, output / MODEL, sorted(aggregated.sizes), adjusted)
    write_json(output / REPORT, {**asdict(found), "folder": str(found.folder)})
    return found


def _write_model(model: Any, folder: Path) -> None:
    """All files in a new folder, which then replaces the old one."""
    part = emptied(folder.with_name(f".{folder.name}.part"))
    try:
        model.write(str(part))
        check_replaceable(folder)
        shutil.rmtree(folder, ignore_errors=True)
        part.replace(folder)
    except (OSError, RuntimeError, ValueError) as error:  # pycolmap's are the latter
        if isinstance(error, FileError):
            raise
        raise FileError(f"{folder} cannot be written: {in_short(error)}.") from None


def _described(
    model: Any, folder: Path, names: list[str], adjusted: Adjusted | None
) -> Reconstructed:
    registered = sorted(model.images[key].name for key in model.reg_image_ids())
    return Reconstructed(
        folder=folder,
        images=len(names),
        registered=tuple(registered),
        lost=tuple(sorted({*names} - {*registered})),
        points=model.num_points3D(),
        track_length=model.compute_mean_track_length(),
        reprojection_px=model.compute_mean_reprojection_error(),
        adjusted=adjusted,
    )

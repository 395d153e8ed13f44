"""The options of a bench, and the protocols of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from semisure.datasets.megadepth import has_training_index
from semisure.datasets.mtv import is_mtv
from semisure.errors import InputError
from semisure.estimators.settings import POINT_PX, RansacSettings
from semisure.law.fit_law import OPTIMISERS, Optimiser
from semisure.matchers import check_name
from semisure.types import as_choice

Protocol: TypeAlias = Literal["hpatches", "mtv"]
SIZES: dict[Protocol, tuple[int, int]] = {"hpatches": (1280, 960), "mtv": (960, 640)}
THRESHOLDS: dict[Protocol, tuple[int, ...]] = {
    "hpatches": (1, 3, 5, 10),
    "mtv": (10, 30, 50, 100),
}
CALIBRATION_PAIRS = 200  # held-out pairs of MegaDepth,
CALIBRATION_SIZE = (1280, 960)  # at this size, for all benches
_THERMAL = ("mtv", "thermal")  # in the name of a folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose."""

    data: Sequence[Path]
    matchers: Sequence[str] = ("daisy",)
    size: tuple[int, int] | None = None  # None: the paper's for the protocol
    weights: Path | None = None
    device: str | None = None
    estimator: str = "ransac"  # the paper's
    threshold_px: float | None = None  # None: the bench's own
    calibration: str | None = None  # a file; None: shipped, else cross-validated
    calibrate_on: Path | None = None  # a data set to fit to instead
    cross_validate: bool = False  # fit to the other sequences or scenes instead
    calibration_pairs: int = CALIBRATION_PAIRS  # of that data set
    calibration_size: tuple[int, int] | None = None  # None: the paper's
    optimiser: Optimiser = "newton"  # powell: the paper's
    native: Mapping[str, Path] = field(default_factory=dict)  # folders, by matcher
    maps: Mapping[str, Path] = field(default_factory=dict)  # COLMAP models, by matcher
    cache: Path = Path("semisure-cache")
    limit: int | None = None  # largest number of pairs of a folder
    views: int = 0  # random views that replace each second image; 0: keep it
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.matchers:
            check_name(name)
        as_choice("optimiser", self.optimiser, OPTIMISERS)
        # MegaDepth's test pairs and training scenes may share a folder.
        apart = self.calibrate_on is None or has_training_index(self.calibrate_on)
        if self.calibrate_on in self.data and not apart:
            raise InputError(
                f"--calibrate-on must be another folder than --data, but both are "
                f"{self.calibrate_on}."
            )

    def ransac(self, usual: RansacSettings | None = None) -> RansacSettings:
        """The usual settings with the user's seed and, if given, threshold."""
        settings = replace(usual or RansacSettings(), seed=self.seed)
        limit = self.threshold_px
        chosen = settings if limit is None else replace(settings, threshold_px=limit)
        return chosen.within(POINT_PX)

    def size_of(self, root: Path) -> tuple[int, int]:
        """The size that images of the folder are resized to."""
        return self.size or SIZES[protocol_of(root)]


def protocol_of(root: Path) -> Protocol:
    """The protocol by a folder's name or layout."""
    thermal = any(word in root.name.lower() for word in _THERMAL)
    return "mtv" if thermal or is_mtv(root) else "hpatches"

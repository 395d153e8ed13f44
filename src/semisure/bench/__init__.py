"""The paper's evaluation: export matches once, evaluate them, print paper and ours.

Each table or figure is a module of its own with ``run(study) -> Outcome``. Matches are
exported by :mod:`~semisure.bench.export` into a cache that evaluation only reads, so no
network runs twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from semisure.errors import InputError


@dataclass(frozen=True, slots=True)
class Entry:
    """One table or figure as `semisure bench --list` shows it."""

    name: str
    module: str
    paper: str  # where the paper has it
    what: str
    needs: str
    as_they_are: bool = False  # images are not brought to the paper's size


_SEQUENCES = "pairs with homographies"
_SEVERAL = "pairs with homographies, of two sequences or more"
_TRUE_ERRORS = "pairs with homographies, or with cameras and depth"
_ENTRIES = (
    Entry(
        "homography",
        "arms",
        "Tab. 1",
        "homography AUC by matcher, base, CoRe and core+",
        _SEQUENCES,
    ),
    Entry(
        "estimators",
        "arms",
        "Tab. 4",
        "homography AUC by robust estimator",
        _SEQUENCES,
    ),
    Entry(
        "weights",
        "arms",
        "Tab. 3",
        "homography AUC by refit weight",
        _SEQUENCES,
    ),
    Entry(
        "localisation",
        "localisation",
        "Tab. 2",
        "camera poses of queries in a map, base, CoRe and core+",
        "a map with localization_map.npz, or Aachen v1.1",
        as_they_are=True,
    ),
    Entry(
        "laws",
        "laws",
        "Tab. 5",
        "NLL, ECE and rank correlation by error law",
        f"{_TRUE_ERRORS}, of two sequences or scenes or more",
    ),
    Entry(
        "initial",
        "initial",
        "supplement B.1",
        "what the refit makes of better and worse starts",
        _SEQUENCES,
    ),
    Entry(
        "posterior",
        "posterior",
        "supplement B.2",
        "reliability, ROC and PR of the coarse-success posterior",
        _SEQUENCES,
    ),
    Entry(
        "quantity",
        "quantity",
        "supplement B.3",
        "fits to 2, 5, 10, … calibration pairs",
        _SEVERAL,
    ),
    Entry(
        "resolution",
        "resolution",
        "Fig. 5",
        "a calibration judged at other image sizes",
        f"{_TRUE_ERRORS}, of two sequences or scenes or more",
    ),
    Entry(
        "tail",
        "tail",
        "Fig. 4",
        "tail mass by matcher and data set",
        f"{_TRUE_ERRORS}; several --data to compare",
    ),
    Entry(
        "relative",
        "relative",
        "supplement B.4",
        "relative-pose AUC, base, CoRe with and without depth, and core+",
        "pairs with cameras; depth for two of the arms",
        as_they_are=True,
    ),
    Entry(
        "runtime",
        "runtime",
        "Fig. 6",
        "milliseconds of matching, estimator, law and refit",
        _SEQUENCES,
    ),
)
# Those that need the matches' true errors only, so that depth will do.
WITHOUT_HOMOGRAPHY = ("laws", "resolution", "tail")
BENCHES: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def check_name(name: str) -> None:
    """Raise unless there is a bench of that name."""
    if name not in BENCHES:
        raise InputError(
            f"The bench must be one of {', '.join(BENCHES)}, but is {name!r}."
        )

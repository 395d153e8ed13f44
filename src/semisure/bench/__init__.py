"""The paper's evaluation: export matches once, evaluate them, print paper and ours.

Each table or figure is a module of :mod:`semisure.bench.studies` with a function of the
bench's name, ``homography(study) -> Outcome``, the rows behind it and the paper's
numbers. Matches are kept on disk (:mod:`semisure.bench.exported`), so that no network
runs twice.
"""

from __future__ import annotations

from dataclasses import dataclass

# What a bench needs of its data.
HOMOGRAPHY = "pairs with homographies"
ERRORS = "pairs with homographies, or with cameras and depth"
POSE = "pairs with cameras"
MAP = "a map with localization_map.npz, or Aachen v1.1"


@dataclass(frozen=True, slots=True)
class Entry:
    """One table or figure as `semisure bench` lists it."""

    name: str  # also of its module and of the function in it
    paper: str  # where the paper has it
    what: str
    needs: str = HOMOGRAPHY
    protocols: bool = False  # judges each of the paper's two protocols by itself
    module: str = ""  # of studies, where it is not called as the bench

    @property
    def as_they_are(self) -> bool:
        """Whether images are matched as they are, not at the paper's size."""
        return self.needs in (POSE, MAP)


BEYOND = "beyond the paper"
_ENTRIES = (
    Entry(
        "homography",
        "Tab. 1",
        "homography AUC by matcher, base, CoRe and core+",
        protocols=True,
    ),
    Entry(
        "localisation",
        "Tab. 2",
        "camera poses of queries in a map, base, CoRe and core+",
        MAP,
    ),
    Entry(
        "estimators",
        "Tab. 4",
        "homography AUC by robust estimator",
        module="homography",
    ),
    Entry("weights", "Tab. 3", "homography AUC by refit weight", module="homography"),
    Entry(
        "radar",
        "Fig. 1",
        "AUC at 3 px by matcher and by estimator",
        module="homography",
    ),
    Entry("laws", "Tab. 5", "NLL, ECE and rank correlation by error law", ERRORS),
    Entry(
        "resolution",
        "Fig. 5",
        "a calibration judged at other image sizes",
        ERRORS,
        module="laws",
    ),
    Entry("tail", "Fig. 4", "tail mass by matcher and data set", ERRORS),
    Entry(
        "runtime", "Fig. 6", "milliseconds of matching, cues, estimator, law and refit"
    ),
    Entry(
        "initial", "supplement B.1", "the refit by quality of the initial homography"
    ),
    Entry(
        "posterior",
        "supplement B.2",
        "reliability, ROC and PR of the coarse-success posterior",
    ),
    Entry(
        "quantity",
        "supplement B.3",
        "fits to 2, 5, 10, … calibration pairs: NLL, AUC and seconds",
        ERRORS,
    ),
    Entry(
        "relative",
        "supplement B.4",
        "relative-pose AUC, base, CoRe with and without depth, and core+",
        POSE,
    ),
    Entry(
        "fundamental",
        BEYOND,
        "fundamental matrices by robust estimator: pose AUC and distance of true "
        "correspondences, base, CoRe and core+",
        POSE,
    ),
    Entry(
        "calibration",
        "Alg. 1",
        "the law fitted to 200 pairs with truth, and its file",
        ERRORS,
    ),
    Entry(
        "native",
        "supplement B.5",
        "how well uncertainties detect large errors, also of other matchers",
        ERRORS,
    ),
    Entry("blur", "supplement C.1", "ellipses under horizontal and vertical blur"),
    Entry(
        "qualitative",
        "Fig. 3, supplement C.2",
        "pairs from easy to hard with their matches and errors before and after",
        protocols=True,
    ),
)
BENCHES: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}

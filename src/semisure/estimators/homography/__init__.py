"""Robust homographies behind one call; each library has its own file.

===============  ==========  ====================================================
name             library     what runs
===============  ==========  ====================================================
``ransac``       OpenCV      4-point RANSAC, then DLT + LM on the inliers
``lo-ransac``    OpenCV      MSAC with inner and iterative local optimisation
``prosac``       OpenCV      PROSAC sampling on matches sorted by confidence
``gc-ransac``    OpenCV      MSAC with graph-cut local optimisation
``magsac++``     OpenCV      MAGSAC score with σ-consensus
``poselib``      PoseLib     LO-RANSAC with bundle adjustment (extra ``ransac``)
``superansac``   SupeRANSAC  MAGSAC score, nested LO (extra ``superansac``)
===============  ==========  ====================================================
"""

from __future__ import annotations

from semisure.estimators.settings import RansacSettings
from semisure.types import Estimate, Matches, RobustEstimator, as_choice
from semisure.types.matches import require_matches

ESTIMATOR_NAMES: tuple[str, ...] = (
    "ransac",
    "lo-ransac",
    "prosac",
    "gc-ransac",
    "magsac++",
    "poselib",
    "superansac",
)

PAPER_ESTIMATORS = ESTIMATOR_NAMES[:5]


def load_estimator(
    name: str, settings: RansacSettings | None = None
) -> RobustEstimator:
    """The robust homography estimator called `name`.

    >>> import numpy as np
    >>> estimator = load_estimator("ransac")
    >>> square = np.array([[0.0, 0], [9, 0], [9, 9], [0, 9], [4, 5]])
    >>> estimate = estimator(square, square + 3, np.ones(5))
    >>> estimate.model[:2, 2].round(6).tolist(), int(estimate.inliers.sum())
    ([3.0, 3.0], 5)
    """
    settings = settings or RansacSettings()
    as_choice("estimator", name, ESTIMATOR_NAMES)
    if name == "poselib":
        from semisure.estimators.homography.poselib import PoseLib

        return PoseLib(settings)
    if name == "superansac":
        from semisure.estimators.homography.superansac import SupeRansac

        return SupeRansac(settings)
    from semisure.estimators.homography.opencv import OpenCV

    return OpenCV(name, settings)


def estimate_homography(
    matches: Matches,
    estimator: str | RobustEstimator = "magsac++",
    settings: RansacSettings | None = None,
) -> Estimate:
    """θ₀ of the matches: a homography with its inliers, or the reason for none.

    Estimators know no location: give them matches `without_bias`.

    >>> import numpy as np
    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=1000)
    >>> estimate = estimate_homography(matches, "magsac++")
    >>> bool(np.abs(estimate.model - np.eye(3)).max() < 1)
    True
    >>> estimate_homography(matches.take(slice(3)), "magsac++").reason
    'only 3 matches, a homography needs 4'
    """
    require_matches(matches)
    run = (
        load_estimator(estimator, settings) if isinstance(estimator, str) else estimator
    )
    return run(matches.source, matches.target, matches.confidence)

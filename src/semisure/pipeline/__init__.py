"""Two images in, calibrated matches and a refitted model out.

With ``model="auto"`` the matches decide. A homography and an epipolar geometry are
both fitted; :mod:`semisure.refit.model_choice` says whether the scene has depth, and
:mod:`semisure.geometry.significance` whether the images have anything in common.
"""

from semisure.pipeline.estimation import match_pair, refit_matches
from semisure.pipeline.models import MODELS, Kind, Model
from semisure.pipeline.result import PairResult

__all__ = ["MODELS", "Kind", "Model", "PairResult", "match_pair", "refit_matches"]

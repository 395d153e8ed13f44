"""CoRe: the posterior-weighted refit after any robust estimator, model by model.

`refit_homography`, `refit_fundamental`, `refit_pose` and `refit_relative` share one
contract. Each takes matches as the matcher gave them, the calibration of their law, and
a start: an estimate or a plain model. Each subtracts a calibrated location itself, so
that files and results hold raw matches only. Each returns a
:class:`semisure.types.Refit`.
"""

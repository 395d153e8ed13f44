"""CoRe: the posterior-weighted refit after any robust estimator, model by model.

`refit_homography`, `refit_fundamental`, `refit_pose` and `refit_relative` share one
contract. Each takes raw matches, the calibration of their law, and a start: an estimate
or a plain model. Each takes a calibrated location off the matches itself, so that files
and results hold nothing but raw matches. Each returns a :class:`semisure.types.Refit`.
"""

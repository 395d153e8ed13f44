"""Bundle adjustment in which each keypoint counts by its own covariance.

COLMAP's adjustment gives every keypoint the same weight. Here a residual is whitened by
the covariance of its keypoint (``pycolmap.cost_functions.ReprojErrorCost``) and goes
through Cauchy's loss at the usual length of such residuals. The rest is COLMAP's: its
adjuster makes the problem, with the parametrisation of poses and two cameras that hold
place and size of the scene; its terms are taken out and ours put in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure.errors import FitError
from semisure.mapping.library import pyceres, pycolmap, quiet, reprojection_term
from semisure.types import FloatArray

LEAST_STD_PX = 0.05  # no keypoint is more precise
FUNCTION_TOLERANCE = 1e-6  # relative change of the cost that ends it
_MEDIAN_CHI2 = 2.0 * np.log(2.0)  # of two squared standard normal variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjusted:
    """What an adjustment did."""

    observations: int
    iterations: int
    cost: tuple[float, float]  # before and after
    residual_ratio: float  # of the adjusted model


def adjust(
    model: Any,
    covariances: Mapping[int, FloatArray],
    *,
    refine_cameras: bool = True,
    max_iterations: int = 50,
) -> Adjusted:
    """Adjust a pycolmap Reconstruction in place.

    `covariances` are (k, 2, 2) px² by image identity, as
    :func:`semisure.mapping.database.read_covariances` gives them; a keypoint of which
    nothing is known gets the median of its image.
    """
    library, ceres = pycolmap(), pyceres()
    adjuster = _adjuster(library, model, refine_cameras, max_iterations)
    problem = adjuster.problem
    for camera in model.cameras.values():  # and with it COLMAP's terms
        if problem.has_parameter_block(camera.params):
            problem.remove_parameter_block(camera.params)
    # Only the relations between covariances are believed; their common factor is what
    # the residuals say.
    factor = residual_ratio(model, covariances)
    kept = _add_terms(ceres, problem, model, covariances, factor)
    for camera in model.cameras.values():
        if problem.has_parameter_block(camera.params):
            _hold_camera(ceres, problem, camera, refine_cameras)
    with quiet():
        summary = adjuster.solve().ceres_summary
    if not summary.IsSolutionUsable():
        raise FitError(f"The bundle adjustment failed: {summary.message}")
    del adjuster
    model.update_point_3d_errors()
    return Adjusted(
        observations=len(kept),
        iterations=summary.num_successful_steps,
        cost=(summary.initial_cost, summary.final_cost),
        residual_ratio=residual_ratio(model, covariances),
    )


def _adjuster(library: Any, model: Any, refine: bool, max_iterations: int) -> Any:
    config = library.BundleAdjustmentConfig()
    for image_id in model.reg_image_ids():
        config.add_image(image_id)
    config.fix_gauge(library.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    options = library.BundleAdjustmentOptions()
    options.refine_focal_length = options.refine_extra_params = refine
    options.print_summary = False
    options.ceres.solver_options.max_num_iterations = max_iterations
    options.ceres.solver_options.function_tolerance = FUNCTION_TOLERANCE
    return library.create_default_ceres_bundle_adjuster(options, config, model)


def _add_terms(
    ceres: Any,
    problem: Any,
    model: Any,
    covariances: Mapping[int, FloatArray],
    loss_at: float,
) -> list[Any]:
    """A whitened term for each observation; the caller keeps them while it solves."""
    loss = ceres.CauchyLoss(loss_at)
    kept: list[Any] = []
    for image, places in _observations(model):
        camera = model.cameras[image.camera_id]
        pose = model.frames[image.frame_id].rig_from_world.params
        covariance = _sound(covariances[image.image_id])
        for place in places:
            point = image.points2D[place]
            term = reprojection_term(camera.model, covariance[place], point.xy)
            blocks = [model.points3D[point.point3D_id].xyz, pose, camera.params]
            problem.add_residual_block(term, loss, blocks)
            kept.append(term)
    return kept


def _observations(model: Any) -> Iterator[tuple[Any, list[int]]]:
    for image_id in model.reg_image_ids():
        image = model.images[image_id]
        yield image, image.get_observation_point2D_idxs()


def _sound(covariance: FloatArray) -> FloatArray:
    """Covariances (k, 2, 2) without gaps; the median where nothing is known."""
    known = np.isfinite(covariance.sum(axis=(1, 2)))
    usual = np.median(covariance[known], axis=0) if known.any() else np.eye(2)
    filled = np.where(known[:, None, None], covariance, usual)
    return filled + LEAST_STD_PX**2 * np.eye(2)


def _hold_camera(ceres: Any, problem: Any, camera: Any, refine: bool) -> None:
    """As in COLMAP: the principal point stays, the rest too unless refined."""
    if not refine:
        problem.set_parameter_block_constant(camera.params)
        return
    centre = list(camera.principal_point_idxs())
    manifold = ceres.SubsetManifold(len(camera.params), centre)
    problem.set_manifold(camera.params, manifold)


def residual_ratio(model: Any, covariances: Mapping[int, FloatArray]) -> float:
    """Median length of whitened residuals over what covariances promise: 1 if right."""
    squares = []
    for image, places in _observations(model):
        if not len(places):
            continue
        points = [image.points2D[place] for place in places]
        world = np.array([model.points3D[p.point3D_id].xyz for p in points])
        pose = image.cam_from_world().matrix()
        camera = model.cameras[image.camera_id]
        shown = np.asarray(camera.img_from_cam(world @ pose[:, :3].T + pose[:, 3]))
        residual = shown - np.array([p.xy for p in points])
        covariance = _sound(covariances[image.image_id])[list(places)]
        whitened = np.linalg.solve(covariance, residual[:, :, None])[:, :, 0]
        squares.append((residual * whitened).sum(axis=1))
    return float(np.sqrt(np.median(np.concatenate(squares)) / _MEDIAN_CHI2))

"""Numbers that no image has: a reason or our own error, never a foreign one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import semisure
from semisure.errors import InputError
from semisure.geometry.homography import project
from semisure.refit.corners import corner_covariance
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Estimate, Matches

H = np.array([[1.1, 0.05, -20.0], [-0.03, 0.95, 12.0], [1e-4, -5e-5, 1.0]])
MATCHES, RESIDUAL = SyntheticMatcher().match(H, count=200)
LINE = np.column_stack([MATCHES.source[:, 0], 0.5 * MATCHES.source[:, 0] + 3])


@pytest.mark.parametrize("factor", [1e8, 1e24, 1e160, 1e300])
@pytest.mark.parametrize("name", ["source", "target", "fine_std", "coarse_std"])
def test_coordinates_beyond_any_image_are_refused(name: str, factor: float) -> None:
    with pytest.raises(InputError, match=rf"{name} must lie within ±1e\+09 px"):
        replace(MATCHES, **{name: 1e3 * factor * getattr(MATCHES, name) + 1e3 * factor})


@pytest.mark.parametrize("method", ["core", "core+"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("shape", ["line", "point", "few"])
def test_degenerate_matches_keep_the_start_with_a_reason(method, side, shape) -> None:
    source = {
        "line": LINE,
        "point": np.tile(MATCHES.source[:1], (200, 1)),
        "few": MATCHES.source[:3],
    }[shape]
    matches = replace(
        MATCHES.take(np.arange(len(source))),
        source=source,
        target=project(H, source),
        side=side,
    )
    refit = semisure.refit_homography(matches, EXAMPLE_CALIBRATION, H, method=method)
    assert refit.reason is not None
    np.testing.assert_array_equal(refit.model, H)
    assert np.isfinite(refit.weight).all()
    assert refit.covariance is None


@pytest.mark.parametrize("side", [0, 1])
def test_a_covariance_of_nothing_determined_is_none(side: int) -> None:
    """The local map of a homography that squashes the image has no inverse."""
    squash = np.array([[1.0, 0, 0], [0, 1e-200, 5], [0, 0, 1]])
    horizon = np.array([[1.0, 0, 0], [0, 1, 0], [-1.0 / 639, 0, 1]])
    for start in (squash, horizon):
        for source in (LINE, MATCHES.source):
            matches = replace(MATCHES, source=source, side=side)
            C = corner_covariance(start, matches, EXAMPLE_CALIBRATION)
            assert C is None or np.isfinite(C).all()


def test_a_confidence_that_all_but_vanished_gives_finite_weights() -> None:
    matches = replace(MATCHES, confidence=np.full(200, 5e-324))
    for method in ("core", "core+"):
        refit = semisure.refit_homography(
            matches, EXAMPLE_CALIBRATION, H, method=method
        )
        assert np.isfinite(refit.weight).all()
        assert np.isfinite(refit.model).all()


@pytest.mark.parametrize("law", ["gaussian", "mixture", "fine_only"])
@pytest.mark.parametrize("factor", [1e20, 1e160, 1e300])
def test_absurd_residuals_are_refused(law: str, factor: float) -> None:
    with pytest.raises(InputError, match=r"residual of pair 0 must be finite and with"):
        semisure.fit([(MATCHES, RESIDUAL * factor)], law=law)


@pytest.mark.parametrize("law", ["gaussian", "mixture", "fine_only"])
def test_no_residual_at_all_is_fitted(law: str) -> None:
    _, report = semisure.fit([(MATCHES, 0 * RESIDUAL)], law=law)
    assert report.summary()


NO_MODELS = [
    np.ones((2, 2)), np.full((3, 3), np.nan), np.eye(4), "x", np.zeros(9),
    np.eye(3, dtype=complex), np.zeros((3, 3)), [[1], [1, 2]],
]  # fmt: skip


@pytest.mark.parametrize("model", NO_MODELS)
def test_an_estimate_with_a_wrong_model_is_our_own_error(model: object) -> None:
    estimate = Estimate(model=model, inliers=np.ones(200, bool), estimator="mine")
    for start in (estimate, model):
        with pytest.raises(InputError, match="initial must be"):
            semisure.refit_homography(MATCHES, EXAMPLE_CALIBRATION, start)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_the_scale_of_a_homography_does_not_matter(scale: float) -> None:
    usual = semisure.refit_homography(MATCHES, EXAMPLE_CALIBRATION, H)
    estimate = Estimate(model=scale * H, inliers=np.ones(200, bool), estimator="mine")
    for start in (scale * H, estimate):
        refit = semisure.refit_homography(MATCHES, EXAMPLE_CALIBRATION, start)
        np.testing.assert_allclose(refit.model, usual.model, rtol=1e-6)


def test_an_estimate_of_other_matches_is_our_own_error() -> None:
    for inliers in (np.ones(3, bool), np.array(1), np.ones((200, 2))):
        estimate = Estimate(model=H, inliers=inliers, estimator="mine")
        with pytest.raises(InputError, match="initial must come from these 200"):
            semisure.refit_homography(MATCHES, EXAMPLE_CALIBRATION, estimate)


@pytest.mark.parametrize("order", ["C", "F"])
def test_matches_do_not_change_with_the_callers_arrays(order: str) -> None:
    source = np.array(MATCHES.source, order=order)
    confidence = MATCHES.confidence.copy()
    matches = Matches(
        source=source, target=MATCHES.target, confidence=confidence,
        fine_std=MATCHES.fine_std, coarse_std=MATCHES.coarse_std,
        source_size=(640, 480), target_size=(640, 480),
    )  # fmt: skip
    source[:] = -1
    confidence[:] = 2
    np.testing.assert_array_equal(matches.source, MATCHES.source)
    np.testing.assert_array_equal(matches.confidence, MATCHES.confidence)


@pytest.mark.parametrize("seed", [4, 12, 19])
def test_matches_in_one_spot_have_no_negative_variance(seed: int) -> None:
    """Sixty matches within a fiftieth of the image hardly determine eight numbers."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=60, seed=seed)
    middle = matches.source.mean(axis=0)
    source = middle + 0.02 * (matches.source - middle)
    target = source + 0.02 * (matches.target - matches.source)
    spot = replace(matches, source=source, target=target)
    C = semisure.refit_homography(spot, EXAMPLE_CALIBRATION, np.eye(3)).covariance
    if C is not None:
        unit = 1.0 / np.sqrt(np.diag(C))
        assert np.linalg.eigvalsh(C * unit * unit[:, None])[0] > 0


def test_a_shift_of_very_many_scales_is_the_expected_error() -> None:
    """E|X + c| → |c|, by whole windows of 8 px."""
    far = replace(EXAMPLE_CALIBRATION, location=(1e299, -1e299))
    far = replace(far, coarse_var_gain=(1e-30, 1e-30))
    matches, _ = SyntheticMatcher().match(np.eye(3), count=5)
    expected = semisure.expected_abs_error(semisure.error_law(matches, far))
    assert expected == pytest.approx(8e299)

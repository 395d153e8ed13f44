"""COLMAP's cameras: against COLMAP, against differences, there and back."""

from __future__ import annotations

import numpy as np
import pytest

from semisure.errors import InputError
from semisure.geometry import camera as lens
from semisure.geometry.camera import Camera

CAMERAS = [
    Camera("SIMPLE_PINHOLE", 640, 480, (500.0, 321.0, 238.0)),
    Camera("PINHOLE", 640, 480, (500.0, 510.0, 321.0, 238.0)),
    Camera("SIMPLE_RADIAL", 640, 480, (500.0, 321.0, 238.0, -0.12)),
    Camera("RADIAL", 640, 480, (500.0, 321.0, 238.0, -0.12, 0.03)),
    Camera("OPENCV", 640, 480, (500.0, 510.0, 321.0, 238.0, -0.1, 0.03, 2e-3, -1e-3)),
]
by_model = pytest.mark.parametrize("camera", CAMERAS, ids=lambda c: c.model)


@pytest.fixture
def seen() -> np.ndarray:
    """Points in front of a camera, within its field."""
    rng = np.random.default_rng(0)
    return rng.uniform([-2, -1.5, 3], [2, 1.5, 8], (300, 3))


@by_model
def test_projection_is_colmaps_less_half_a_pixel(camera: Camera, seen) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="needs the extra pose")
    theirs = pycolmap.Camera(
        model=camera.model, width=640, height=480, params=list(camera.params)
    )
    expected = theirs.img_from_cam(seen) - 0.5
    assert np.abs(lens.project(camera, seen) - expected).max() < 1e-9


@by_model
def test_a_resized_camera_sees_the_resized_image(camera: Camera, seen) -> None:
    """A pixel's centre goes to (p + ½) s − ½ with its image, whatever the lens."""
    smaller = lens.project(camera.resized((320, 360)), seen)
    expected = (lens.project(camera, seen) + 0.5) * [0.5, 0.75] - 0.5
    np.testing.assert_allclose(smaller, expected, atol=1e-9)
    assert camera.resized(camera.size) is camera


def test_a_pixel_by_hand() -> None:
    # u = 0.5, v = 0, r² = 0.25: x = 100 · 0.5 · (1 + 0.2 · 0.25) + 50 − 0.5
    camera = Camera("SIMPLE_RADIAL", 100, 100, (100.0, 50.0, 50.0, 0.2))
    pixel = lens.project(camera, np.array([[1.0, 0.0, 2.0]]))
    assert np.allclose(pixel, [[102.0, 49.5]])


@by_model
def test_derivative_is_the_difference(camera: Camera, seen) -> None:
    J, h = lens.look(camera, seen)[1], 1e-6
    for axis, step in enumerate(h * np.eye(3)):
        ahead, behind = (lens.project(camera, seen + s * step) for s in (1, -1))
        assert np.abs((ahead - behind).T / (2 * h) - J[:, axis]).max() < 1e-5


@by_model
def test_unproject_undoes_project(camera: Camera, seen) -> None:
    back = lens.unproject(camera, lens.project(camera, seen))
    assert np.abs(back - seen[:, :2] / seen[:, 2:]).max() < 1e-12


def test_a_pixel_that_no_ray_reaches_is_nan() -> None:
    # u (1 − u²) has its maximum, 2 / (3√3) = 0.385, at u = 1/√3.
    camera = Camera("SIMPLE_RADIAL", 100, 100, (100.0, 50.0, 50.0, -1.0))
    there = lens.unproject(camera, np.array([[49.5 + 38.0, 49.5], [49.5 + 60.0, 49.5]]))
    assert np.isfinite(there[0]).all()
    assert np.isnan(there[1]).all()


def test_points_behind_the_camera_have_no_pixel() -> None:
    pixels = lens.project(CAMERAS[0], np.array([[0, 0, 1.0], [0, 0, -1.0], [1, 1, 0]]))
    assert np.isnan(pixels).all(axis=1).tolist() == [False, True, True]


def test_matrix_is_for_pixels_with_centres_at_integers() -> None:
    K = np.array([[500.0, 0, 319.5], [0, 510, 239.5], [0, 0, 1]])
    camera = Camera.from_matrix(K, (640, 480))
    assert camera.params == (500.0, 510.0, 320.0, 240.0)
    assert np.array_equal(camera.matrix, K)


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        ("FISHEYE", (1.0, 1, 1), "must be one of SIMPLE_PINHOLE"),
        ("PINHOLE", (1.0, 1, 1), "has 4 finite parameters"),
        ("SIMPLE_PINHOLE", (float("nan"), 1, 1), "has 3 finite parameters"),
        ("SIMPLE_PINHOLE", (-5.0, 1, 1), "focal length must be positive"),
    ],
)
def test_wrong_intrinsics_are_named(model: str, params, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Camera(model, 640, 480, params)


def test_a_camera_has_a_size() -> None:
    with pytest.raises(InputError, match=r"must be \(width, height\) in pixels"):
        Camera("SIMPLE_PINHOLE", 0, 480, (500.0, 320, 240))

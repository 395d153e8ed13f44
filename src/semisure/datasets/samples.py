"""Real photos and a stereo pair that come with the scikit-image package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from semisure.errors import MissingExtraError

PHOTOS = ("astronaut.png", "camera.png", "coffee.png", "rocket.jpg", "brick.png")
# Photos for calibrations on first use: things, faces, textures.
CALIBRATION_PHOTOS = (
    *PHOTOS,
    "chelsea.png",
    "clock_motion.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "moon.png",
    "motorcycle_left.png",
)
STEREO = ("motorcycle_left.png", "motorcycle_right.png", "motorcycle_disp.npz")


def sample_folder(purpose: str = "The demo") -> Path:
    """Where the installed scikit-image keeps its photos."""
    package = find_spec("skimage")
    if package is None or package.origin is None:
        raise MissingExtraError("scikit-image", "demo", purpose)
    return Path(package.origin).with_name("data")


def calibration_photos(purpose: str) -> list[Path]:
    """Photos to fit a law to."""
    return [sample_folder(purpose) / name for name in CALIBRATION_PHOTOS]

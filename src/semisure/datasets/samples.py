"""Real photos and a stereo pair that come with the scikit-image package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from semisure.errors import MissingExtraError

PHOTOS = ("astronaut.png", "camera.png", "coffee.png", "rocket.jpg", "brick.png")
STEREO = ("motorcycle_left.png", "motorcycle_right.png", "motorcycle_disp.npz")


def sample_folder() -> Path:
    """Where the installed scikit-image keeps its photos."""
    package = find_spec("skimage")
    if package is None or package.origin is None:
        raise MissingExtraError("scikit-image", "demo", "The demo")
    return Path(package.origin).with_name("data")

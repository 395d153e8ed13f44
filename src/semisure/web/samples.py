"""Sample pairs, from the photos that scikit-image carries."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from semisure.errors import InputError

if TYPE_CHECKING:
    from semisure.io.images import Image

_STEREO = ("motorcycle_left.png", "motorcycle_right.png")
THUMBNAIL = (72, 96)  # px, height and width of each image
# name: (title, files); of a single file, two random views are shown
SAMPLES = {
    "coffee": ("Coffee, views made of one photo", ("coffee.png",)),
    "brick": ("Bricks, repetitive views", ("brick.png",)),
    "rocket": ("Rocket, views with plain sky", ("rocket.jpg",)),
    "motorcycle": ("Motorcycle, a real stereo pair", _STEREO),
    "unrelated": ("Unrelated photos", ("coffee.png", "astronaut.png")),
}


def available() -> dict[str, str]:
    """Titles of the samples by name; empty if scikit-image is not installed."""
    if find_spec("skimage") is None:
        return {}
    return {name: title for name, (title, _) in SAMPLES.items()}


@lru_cache(maxsize=len(SAMPLES))
def thumbnail(name: str) -> bytes:
    """A small JPEG of a sample's two images, side by side."""
    from semisure.io.images import jpeg, resized

    height, width = THUMBNAIL
    small = [resized(image, (width, height)) for image in load_sample(name)]
    return jpeg(np.hstack(small), 80)


def load_sample(name: str) -> tuple[Image, Image]:
    """The two images of a sample."""
    if name not in SAMPLES:
        raise InputError(f"sample must be one of {', '.join(SAMPLES)}.")
    from semisure.calibrate.random_views import WarpSettings, random_pair
    from semisure.datasets.samples import sample_folder
    from semisure.io.images import read_image

    folder = sample_folder()
    images = [read_image(folder / file) for file in SAMPLES[name][1]]
    if len(images) == 2:
        return images[0], images[1]
    whole = WarpSettings(max_occluders=0)
    return random_pair(images[0], np.random.default_rng(len(name)), whole)[:2]

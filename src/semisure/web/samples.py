"""Pairs to try without photos of one's own; scikit-image carries them."""

from __future__ import annotations

import numpy as np

from semisure.demo import STEREO, sample_folder
from semisure.errors import InputError, MissingExtraError
from semisure.images import Image, read_image
from semisure.warps import random_pair

# name: (what it is, files); one file means two random views of it
SAMPLES = {
    "coffee": ("Coffee, two views", ("coffee.png",)),
    "brick": ("Bricks, repetitive", ("brick.png",)),
    "rocket": ("Rocket, plain sky", ("rocket.jpg",)),
    "motorcycle": ("Motorcycle, stereo", STEREO[:2]),
    "unrelated": ("Unrelated photos", ("coffee.png", "astronaut.png")),
}


def available() -> dict[str, str]:
    """What each sample is, by name; none where scikit-image is not installed."""
    try:
        sample_folder()
    except MissingExtraError:
        return {}
    return {name: title for name, (title, _) in SAMPLES.items()}


def load_sample(name: str) -> tuple[Image, Image]:
    """The two images of a sample."""
    if name not in SAMPLES:
        raise InputError(f"sample must be one of {', '.join(SAMPLES)}.")
    folder = sample_folder()
    images = [read_image(folder / file) for file in SAMPLES[name][1]]
    if len(images) == 2:
        return images[0], images[1]
    return random_pair(images[0], np.random.default_rng(len(name)))[:2]

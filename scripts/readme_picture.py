"""Draw the README's picture: matches of two views of a photo, by expected error.

    python scripts/readme_picture.py docs/picture.jpg

The photo, coffee.png, comes with scikit-image and is in the public domain (CC0).
"""

import sys
from pathlib import Path

import numpy as np

import semisure
from semisure.datasets.samples import sample_folder
from semisure.io.atomic import write_atomically
from semisure.io.images import decode_image, jpeg, reduced
from semisure.report.plots import plot_matches, png
from semisure.selfcal.random_views import random_pair

WIDTH = 1100  # px


def main(path: Path) -> None:
    """Match, draw, write."""
    photo = semisure.read_image(sample_folder() / "coffee.png")
    image0, image1, _ = random_pair(photo, np.random.default_rng(5))
    matcher, known = semisure.load_matcher("daisy"), semisure.load_calibration("daisy")
    pair = semisure.match_pair(image0, image1, matcher, known)
    print(pair.summary())
    figure = plot_matches(image0, image1, pair.matches, pair.expected_px)
    picture = jpeg(reduced(decode_image(png(figure)), WIDTH), 82)
    write_atomically(path, lambda file: file.write(picture))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

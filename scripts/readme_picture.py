"""Draw the README's picture: matches of a real stereo pair, by expected error.

    python scripts/readme_picture.py docs/picture.jpg

The photos, of the Middlebury stereo benchmark of 2014, come with scikit-image.
"""

import sys
from pathlib import Path

import semisure
from semisure.datasets.samples import STEREO, sample_folder
from semisure.io.atomic import write_atomically
from semisure.io.images import decode_image, jpeg, reduced
from semisure.report.plots import plot_matches, png

WIDTH = 1100  # px


def main(path: Path) -> None:
    """Match, draw, write."""
    image0, image1 = (semisure.read_image(sample_folder() / f) for f in STEREO[:2])
    pair = semisure.match(image0, image1)
    print(pair.summary())
    figure = plot_matches(image0, image1, pair.matches, pair.expected_px)
    picture = jpeg(reduced(decode_image(png(figure)), WIDTH), 82)
    write_atomically(path, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

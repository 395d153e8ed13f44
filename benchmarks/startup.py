"""What `semisure match` on two small photos spends before it works, by stage.

    python benchmarks/startup.py [--source OTHER/src]

Each stage is a fresh process, and its time the median of several. Modules are compiled
beforehand, as an installer does it, even where `PYTHONDONTWRITEBYTECODE` is set.
`--source` measures another copy of the package in the same rounds, say an older one.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from clock import medians

ROUNDS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, help="another copy of the package")
    compare(parser.parse_args().source)


def compare(other: Path | None = None) -> None:
    print(f"\nstart-up: medians of {ROUNDS} interleaved processes, s")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder, "compiled"))
        photos = [str(path) for path in two_photos(Path(folder))]
        arms: dict[str, Callable[[], object]] = {}
        for copy, source in (("", None), (" (other)", other)):
            if copy and source is None:
                continue
            for stage, code in stages(photos, source).items():
                arms[stage + copy] = partial(run, code, source)
        seconds = medians(arms, ROUNDS, warm_up=1, clock=children)
    for name, median in seconds.items():
        print(f"  {name:<36}{median:7.3f}")


def stages(photos: list[str], source: Path | None) -> dict[str, list[str]]:
    """What Python is asked to do, each stage more than the one before."""
    imports = "; ".join(f"import {name}" for name in loaded_by_match(photos, source))
    return {
        "python": ["-c", "pass"],
        "import semisure": ["-c", "import semisure"],
        "semisure --version": ["-m", "semisure", "--version"],
        "all that match imports": ["-c", imports],
        "semisure match": ["-m", "semisure", "match", *photos],
    }


def loaded_by_match(photos: list[str], source: Path | None) -> list[str]:
    """The modules of semisure, OpenCV and SciPy that the command loads."""
    watch = (
        "import runpy, sys; sys.argv = ['semisure', 'match', *sys.argv[1:]]\n"
        "try: runpy.run_module('semisure', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('loaded:', *sys.modules)"
    )
    names = run(["-c", watch, *photos], source).rpartition("loaded:")[2].split()
    ours = [n for n in names if n.startswith("semisure") and "__main__" not in n]
    # Their inner modules come with them.
    theirs = {"cv2", "scipy.special", "scipy.optimize"} & set(names)
    return [*ours, *sorted(theirs)]


def run(arguments: list[str], source: Path | None) -> str:
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source)})
    done = subprocess.run(  # noqa: S603 - our own lines
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    return done.stdout


def children() -> float:
    """Seconds that processes started here have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def two_photos(folder: Path) -> list[Path]:
    """Smooth noise, and the same a few pixels on."""
    rng = np.random.default_rng(0)
    picture = cv2.resize(rng.integers(0, 255, (40, 50), np.uint8), (400, 320))
    paths = [folder / "0.png", folder / "1.png"]
    cv2.imwrite(str(paths[0]), picture[:280, :360])
    cv2.imwrite(str(paths[1]), picture[6:286, 9:369])
    return paths


if __name__ == "__main__":
    main()

"""Make the laws that know scenes, `daisy` and XFeat*'s, that come with the package.

    python scripts/calibrate_scenes.py daisy DATA PHOTOS daisy.json --cache CACHE

for `src/semisure/data/calibrations`. The eight numbers stay those of the law that is
there, which `semisure calibrate` fitted to random views of photos. How pairs differ is
fitted here, to the pairs that `semisure bench calibrated --limit 50` learns from, with
its cache of matches: views of PHOTOS, a folder of photos, and the scenes below DATA
that docs/evaluation.md describes, posed images with depth. Each has the same say.
`--without NAME` leaves scenes out, to judge the law on them.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from semisure.bench.scene_laws import Lesson, learn
from semisure.bench.scenes import lessons, scenes_of

import semisure
from semisure.__about__ import __version__
from semisure.bench.options import Options
from semisure.bench.run import ONE_PROCESS
from semisure.bench.study import Study
from semisure.engine import open_engine

PAIRS_A_FOLDER = 50


def folders(data: Path, photos: Path, without: set[str]) -> list[Path]:
    """Every posed scene but for those left out, and the photos."""
    found = sorted(path.parent for path in data.rglob("cameras.txt"))
    return [*(root for root in found if root.name not in without), photos]


def main() -> None:
    """Match, fit how pairs differ, and write it beside the shipped law's numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("matcher")
    parser.add_argument("data", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("output", type=Path, help="File of the law.")
    parser.add_argument("--cache", type=Path, default=Path("semisure-cache"))
    parser.add_argument("--without", nargs="*", default=[], help="Scenes left out.")
    asked = parser.parse_args()
    shipped = semisure.load_calibration(asked.matcher)
    options = Options(
        data=folders(asked.data, asked.photos, set(asked.without)),
        matchers=(asked.matcher,),
        limit=PAIRS_A_FOLDER,
        cache=asked.cache,
    )
    with open_engine(ONE_PROCESS) as engine:
        scenes = lessons(scenes_of(Study(options, engine), asked.matcher), "")
    planar = replace(shipped, pairs=None)
    law = learn(Lesson(scenes, planar.location is not None, planar))
    provenance: dict[str, Any] = {
        "numbers": shipped.provenance["numbers"],
        "pairs": "scenes in depth and random views of photos",
        "scenes": {name: len(pairs) for name, pairs in scenes.items()},
        "semisure": __version__,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
    }
    semisure.save_calibration(replace(law, provenance=provenance), asked.output)
    print(law.pairs)


if __name__ == "__main__":
    main()

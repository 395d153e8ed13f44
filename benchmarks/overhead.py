"""What the cues cost: a matcher with them against the same without, in one run.

    OMP_NUM_THREADS=1 python benchmarks/overhead.py PHOTOS [--matcher xfeat-star ...]

Wanted: at most 10 % of time and 64 MB of peak memory. "Without" is the library's own
call for XFeat* and LoFTR; for the others, whose networks or heads are ours, the same
without the cues. All but XFeat* run on seeded random weights: both arms search all
cells for matches, then go on with every third one.

The arms take turns in one process, which counts the time it computes; peak memory is
that of a fresh process for each arm.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from clock import medians

SIZES = ("640x480", "1280x960")
ROUNDS = {"640x480": 5, "1280x960": 2}
NAMES = ("xfeat-star", "loftr", "eloftr", "gim-loftr", "comatch", "edm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--matcher", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--size", nargs="*", default=SIZES, choices=SIZES)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, what, size = options.measure.split(":")
        measure(options.photos, name, what, size)
        return
    for name in options.matcher:
        for size in options.size:
            compare(options.photos, name, size)


def compare(photos: Path, name: str, size: str) -> None:
    """Print time and peak memory of each arm, and what the cues add."""
    arms, seconds, matches = asked(photos, name, "time", size)
    peaks = [asked(photos, name, arm, size) for arm in arms]
    print(f"{name} {size}, {matches} matches")
    (bare_s, bare_mb), *_ = both = list(zip(seconds, peaks, strict=True))
    for arm, (s, mb) in zip(arms, both, strict=True):
        more = f"{100 * (s / bare_s - 1):+.1f} %, {mb - bare_mb:+.0f} MB"
        print(f"  {arm:8} {s:6.2f} s  {mb:5.0f} MB  {more}", flush=True)


def asked(photos: Path, name: str, what: str, size: str) -> Any:
    """What a fresh process measures."""
    done = subprocess.run(  # noqa: S603 - our own file
        [sys.executable, __file__, str(photos), "--measure", f"{name}:{what}:{size}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def measure(photos: Path, name: str, what: str, size: str) -> None:
    import cv2
    import numpy as np

    from semisure.io.images import find_images, read_image

    width, height = map(int, size.split("x"))
    images = [
        np.asarray(cv2.resize(read_image(path), (width, height)), np.uint8)
        for path in find_images(photos)[:2]
    ]
    arms = ARMS[name]()
    if what == "time":
        runs = {arm: partial(match, *images) for arm, match in arms.items()}
        seconds = medians(runs, ROUNDS[size], warm_up=size == SIZES[0])
        print(json.dumps([list(seconds), list(seconds.values()), len(runs["with"]())]))
        return
    for _ in range(2):
        arms[what](*images)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(peak))


Match = Callable[..., Any]
Arms = dict[str, Match]


def xfeat_arms() -> Arms:
    from embedded import bare
    from semisure.matchers.xfeat import XFeatStar

    xfeat = XFeatStar()
    return {"without": bare(xfeat), "with": xfeat}


def every_third(module: Any) -> None:
    """Let a matcher search all cells, then report every third with one of its own."""
    import torch

    from semisure.matchers.cues import CellMatches

    name = "top_cells" if hasattr(module, "top_cells") else "mutual_cells"
    search = getattr(module, name)

    def find(cells: Any, **options: Any) -> CellMatches:
        search(cells, **options)
        third = torch.arange(0, len(cells.f0), 3)
        return CellMatches(third, third, torch.full((len(third),), 0.5))

    setattr(module, name, find)


def without_cues(module: Any, match: Match) -> Match:
    """The same search, but nothing looks how far a softmax spreads."""
    import torch

    def search(*images: Any) -> Any:
        with patched(
            (module, "row_spread", lambda cells, i: torch.zeros(len(i), 2).double()),
            (module, "grid_std", lambda heat, at: torch.zeros(len(heat), at.shape[1])),
        ):
            return match(*images)

    return search


@contextmanager
def patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Other functions in modules that have them, for a while."""
    usual = [(m, name, getattr(m, name)) for m, name, _ in changes if hasattr(m, name)]
    try:
        for module, name, other in changes:
            if hasattr(module, name):
                setattr(module, name, other)
        yield
    finally:
        for module, name, function in usual:
            setattr(module, name, function)


def loftr_arms() -> Arms:
    import torch
    from kornia.feature import LoFTR as Network

    from semisure.io.images import as_grey
    from semisure.matchers import loftr as module
    from semisure.matchers.network import unit_tensor

    torch.manual_seed(0)
    loftr = module.LoFTR(weights=saved(Network(pretrained=None).state_dict()))
    every_third(module)

    def replace_matches(_: Any, args: Any, kwargs: Any, out: Any) -> None:
        data = args[2]
        cells = torch.arange(0, args[0].shape[1], 3)
        corner = torch.stack([cells, cells], dim=1).float()
        data.update(b_ids=0 * cells, i_ids=cells, j_ids=cells, mconf=corner[:, 0])
        data.update(mkpts0_c=corner, mkpts1_c=corner)

    def bare(*images: Any) -> Any:
        tensors = [unit_tensor(as_grey(image), "cpu") for image in images]
        with torch.inference_mode():
            return loftr.model({"image0": tensors[0], "image1": tensors[1]})

    matching = loftr.model.coarse_matching
    matching.register_forward_hook(replace_matches, with_kwargs=True)
    return {"without": bare, "with": loftr}


def own_arms(name: str) -> Arms:
    """Of a network whose heads are ours: with the cues, and without."""
    import importlib

    import torch

    from semisure.matchers import gim, load_matcher

    networks: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "eloftr": ("eloftr", lambda module: module.Matching(module.Config())),
        "gim-loftr": ("loftr", lambda _: gim.GimLoFTR.network()),
        "comatch": ("comatch", lambda module: module.CoMatch.network()),
        "edm": ("edm", lambda module: module.Edm.network()),
    }
    file, network = networks[name]
    module = importlib.import_module(f"semisure.matchers.{file}")
    torch.manual_seed(0)
    matcher: Any = load_matcher(name, weights=saved(network(module).state_dict()))
    every_third(module)
    return {"without": without_cues(module, matcher), "with": matcher}


def saved(state: dict[str, Any]) -> Path:
    import torch

    path = Path(tempfile.mkdtemp()) / "random.pt"
    torch.save(state, path)
    return path


ARMS: dict[str, Callable[[], Arms]] = {
    "xfeat-star": xfeat_arms,
    "loftr": loftr_arms,
    **{name: partial(own_arms, name) for name in NAMES[2:]},
}


if __name__ == "__main__":
    main()

"""What the cues cost: a matcher with them against the same without, in one run.

    OMP_NUM_THREADS=1 python benchmarks/overhead.py PHOTOS [--matcher xfeat-star ...]

Wanted: at most 10 % of time and 64 MB of peak memory. "Without" is the library's own
call for XFeat* and LoFTR; for the others, whose networks or heads are ours, the same
without the cues. All but XFeat* run on seeded random weights: both arms search all
cells for matches, then go on with every third one.

The arms take turns in one process, which counts the time it computes; peak memory is
that of a fresh process for each arm. GIM-LoFTR has a third arm, "whole": without cues,
and no layer in strips.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
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


def every_third(search: Match) -> Match:
    """Search all cells, then report every third, each with a cell of its own."""
    from semisure.matchers._dual import CellMatches

    def find(f0: Any, f1: Any, *args: Any, **kwargs: Any) -> CellMatches:
        import torch

        search(f0, f1, *args, **kwargs)
        cells = torch.arange(0, len(f0), 3)
        sure, spread = torch.full((len(cells),), 0.5), torch.ones(len(cells), 2)
        return CellMatches(cells, cells, sure, spread.double())

    return find


def without_spread(match: Match) -> Match:
    """The same search, but it does not look how far a row's softmax spreads."""
    import torch

    from semisure.matchers import _dual

    def search(*images: Any) -> Any:
        spread = _dual._spread
        _dual._spread = lambda weight, down: torch.zeros(len(down), 2)
        try:
            return match(*images)
        finally:
            _dual._spread = spread

    return search


def loftr_arms() -> Arms:
    import torch
    from kornia.feature import LoFTR as Network
    from semisure.matchers._cues import unit_tensor
    from semisure.matchers._view import grey, view_of

    from semisure.matchers import _dual
    from semisure.matchers.loftr import LoFTR

    torch.manual_seed(0)
    loftr = LoFTR(weights=saved(Network(pretrained=None).state_dict()))
    _dual.mutual_cells = every_third(_dual.mutual_cells)

    def replace_matches(module: Any, args: Any, kwargs: Any, out: Any) -> None:
        data = args[2]
        cells = torch.arange(0, args[0].shape[1], 3)
        corner = torch.stack([cells, cells], dim=1).float()
        data.update(b_ids=0 * cells, i_ids=cells, j_ids=cells, mconf=corner[:, 0])
        data.update(mkpts0_c=corner, mkpts1_c=corner)

    def bare(*images: Any) -> Any:
        tensors = [unit_tensor(grey(view_of(i, None)), "cpu") for i in images]
        with torch.inference_mode():
            return loftr.model({"image0": tensors[0], "image1": tensors[1]})

    matching = loftr.model.coarse_matching
    matching.register_forward_hook(replace_matches, with_kwargs=True)
    return {"without": bare, "with": loftr}


def eloftr_arms() -> Arms:
    import torch
    from transformers import EfficientLoFTRConfig as Config
    from transformers import EfficientLoFTRForKeypointMatching as Network

    from semisure.matchers import _dual
    from semisure.matchers.eloftr import EfficientLoFTR

    torch.manual_seed(0)
    path = saved(Network(Config()).state_dict())
    _dual.mutual_cells = every_third(_dual.mutual_cells)
    eloftr = EfficientLoFTR(weights=path)
    plain = EfficientLoFTR(weights=path, fine_stages="second")
    return {"without": without_spread(plain), "with": eloftr}


def own_arms(name: str) -> Arms:
    """Of a network of ours: the adapter, and the network's own call."""
    import torch
    from semisure.matchers._cues import unit_tensor
    from semisure.matchers._view import grey, rgb, view_of

    from semisure.matchers import _comatch_net, _edm_net, _gim_net, load_matcher

    nets: dict[str, Any] = {
        "gim-loftr": (_gim_net, "GimNet"),
        "comatch": (_comatch_net, "CoMatchNet"),
        "edm": (_edm_net, "EdmNet"),
    }
    module, network = nets[name]
    torch.manual_seed(0)
    path = saved(getattr(module, network)().state_dict())
    matcher: Any = load_matcher(name, weights=path)
    settings: tuple[float, ...] = (0.2,)
    if name == "edm":
        settings = (0.0, 0.35)
        module.top_cells = every_third(module.top_cells)
    else:
        module.mutual_cells = every_third(module.mutual_cells)
    channels = rgb if name == "gim-loftr" else grey

    def bare(*images: Any) -> Any:
        tensors = [unit_tensor(channels(view_of(i, None)), "cpu") for i in images]
        with torch.inference_mode():
            return matcher.model(tensors[:1], tensors[1:], *settings)

    arms = {"without": without_spread(bare), "with": matcher}
    return arms | ({"whole": whole(module, bare)} if name == "gim-loftr" else {})


def whole(module: Any, match: Match) -> Match:
    """The same with no layer in strips."""

    def at_once(layers: Match, height: int, **_: Any) -> Any:
        return layers(slice(0, height))

    def search(*images: Any) -> Any:
        in_strips, module.in_strips = module.in_strips, at_once
        try:
            return without_spread(match)(*images)
        finally:
            module.in_strips = in_strips

    return search


def saved(state: dict[str, Any]) -> Path:
    import torch

    path = Path(tempfile.mkdtemp()) / "random.pt"
    torch.save(state, path)
    return path


ARMS: dict[str, Callable[[], Arms]] = {
    "xfeat-star": xfeat_arms,
    "loftr": loftr_arms,
    "eloftr": eloftr_arms,
    **{name: partial(own_arms, name) for name in ("gim-loftr", "comatch", "edm")},
}


if __name__ == "__main__":
    main()

"""What the cues cost: a matcher with them against the same without, in one run.

    python benchmarks/overhead.py PHOTOS [--matcher xfeat-star loftr ...]

Wanted: at most 10 % of time and 64 MB of peak memory. "Without" is the library's own
call for XFeat* and LoFTR; for the others, whose networks or heads are ours, the same
without the cues. All but XFeat* run on seeded random weights: both arms search all
cells for matches, then go on with every third one.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SIZES = ((640, 480), (1280, 960))
REPEATS = {
    "xfeat-star": 5,
    "loftr": 2,
    "eloftr": 3,
    "gim-loftr": 2,
    "comatch": 2,
    "edm": 3,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--matcher", nargs="*", default=list(REPEATS), choices=REPEATS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, arm, size = options.measure.split(":")
        measure(options.photos, name, arm, *map(int, size.split("x")))
        return
    for name in options.matcher:
        for width, height in SIZES:
            compare(options.photos, name, f"{width}x{height}")


def compare(photos: Path, name: str, size: str) -> None:
    results = {}
    for arm in ("without", "with"):
        asked = f"{name}:{arm}:{size}"
        done = subprocess.run(  # noqa: S603 - our own file
            [sys.executable, __file__, str(photos), "--measure", asked],
            capture_output=True,
            text=True,
            check=True,
        )
        results[arm] = tuple(map(float, done.stdout.split()))
    (bare_s, bare_mb, _), (cued_s, cued_mb, matches) = results.values()
    print(
        f"{name} {size}, {matches:.0f} matches: {bare_s:.2f} s -> {cued_s:.2f} s "
        f"({100 * (cued_s / bare_s - 1):+.0f} %), peak {bare_mb:.0f} MB -> "
        f"{cued_mb:.0f} MB ({cued_mb - bare_mb:+.0f} MB)",
        flush=True,
    )


def measure(photos: Path, name: str, arm: str, width: int, height: int) -> None:
    import cv2
    import numpy as np

    from semisure.io.images import find_images, read_image

    images = [
        np.asarray(cv2.resize(read_image(path), (width, height)), np.uint8)
        for path in find_images(photos)[:2]
    ]
    cued, bare = ARMS[name]()
    match = cued if arm == "with" else bare
    seconds = []
    for _ in range(REPEATS[name]):
        start = time.perf_counter()
        found = match(*images)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(min(seconds), peak, len(found) if arm == "with" else 0)


Match = Callable[..., Any]


def xfeat_arms() -> tuple[Match, Match]:
    from embedded import bare
    from semisure.matchers.xfeat import XFeatStar

    xfeat = XFeatStar()
    return xfeat, bare(xfeat)


def every_third(search: Match) -> Match:
    """Search all cells, then report every third."""
    from semisure.matchers._dual import CellMatches

    def find(f0: Any, f1: Any, *args: Any, **kwargs: Any) -> CellMatches:
        import torch

        search(f0, f1, *args, **kwargs)
        cells = torch.arange(0, len(f0), 3)
        return CellMatches(cells, cells, torch.full((len(cells),), 0.5))

    return find


def loftr_arms() -> tuple[Match, Match]:
    import torch
    from kornia.feature import LoFTR as Network

    from semisure.matchers import _dual
    from semisure.matchers._cues import unit_tensor
    from semisure.matchers._view import grey, view_of
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
    return loftr, bare


def eloftr_arms() -> tuple[Match, Match]:
    import torch
    from transformers import EfficientLoFTRConfig as Config
    from transformers import EfficientLoFTRForKeypointMatching as Network

    from semisure.matchers import _dual
    from semisure.matchers.eloftr import EfficientLoFTR

    torch.manual_seed(0)
    path = saved(Network(Config()).state_dict())
    _dual.mutual_cells = every_third(_dual.mutual_cells)
    spread = _dual.row_spread
    eloftr = EfficientLoFTR(weights=path)
    plain = EfficientLoFTR(weights=path, fine_stages="second")

    def bare(*images: Any) -> Any:
        _dual.row_spread = lambda f0, f1, size: torch.ones(len(f0), 2)
        try:
            return plain(*images)
        finally:
            _dual.row_spread = spread

    return eloftr, bare


def own_arms(name: str) -> tuple[Match, Match]:
    """Of a network of ours: the adapter, and the network's own call."""
    import torch

    from semisure.matchers import _comatch_net, _edm_net, _gim_net, load_matcher
    from semisure.matchers._cues import unit_tensor
    from semisure.matchers._view import grey, rgb, view_of

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
    if name == "edm":  # every cell it looks at, whatever the confidence
        settings = (0.0, 0.35)
        object.__setattr__(matcher, "threshold", 0.0)
    else:
        module.mutual_cells = every_third(module.mutual_cells)
    channels = rgb if name == "gim-loftr" else grey

    def bare(*images: Any) -> Any:
        tensors = [unit_tensor(channels(view_of(i, None)), "cpu") for i in images]
        with torch.inference_mode():
            return matcher.model(*tensors, *settings)

    return matcher, bare


def saved(state: dict[str, Any]) -> Path:
    import torch

    path = Path(tempfile.mkdtemp()) / "random.pt"
    torch.save(state, path)
    return path


ARMS: dict[str, Callable[[], tuple[Match, Match]]] = {
    "xfeat-star": xfeat_arms,
    "loftr": loftr_arms,
    "eloftr": eloftr_arms,
    **{name: partial(own_arms, name) for name in ("gim-loftr", "comatch", "edm")},
}


if __name__ == "__main__":
    main()

"""What the engines and the store cost: python benchmarks/engine.py [ratio|scale|store].

ratio   Ray over local on pairs that take 200 ms each, interleaved runs, engines open:
        what is left is handing out work and gathering answers. A pair is a nap, so that
        the ratio is not one of two programs that fight for processors.
scale   microseconds a pair and the driver's memory at 10³, 10⁴ and 10⁵ empty pairs.
store   a store of 10⁵ pairs: made, listed, read.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from semisure.engine import (
    Each,
    Engine,
    EngineSettings,
    in_batches,
    open_engine,
)
from semisure.io.store import Manifest, Store
from semisure.pairs.lists import exhaustive_pairs
from semisure.synthetic import SyntheticMatcher
from semisure.types.pair_records import ImageRecord, Names, PairRecord

KINDS = ("local", "ray")
PAIR_S = 0.2
BATCH = 16  # for naps: 3.2 s
EMPTY_BATCH = 64
STORE_IMAGES = 448  # 100,128 pairs


def nap(pair: int) -> int:
    """A pair that takes its time without a processor's."""
    time.sleep(PAIR_S)
    return pair


def nothing(pair: int) -> int:
    """An empty pair."""
    return pair


def memory_mb() -> float:
    """What this process holds now, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def seconds_of(engine: Engine, pairs: int, batch: int, function: Any) -> float:
    """Wall time until the last answer."""
    began, count = time.perf_counter(), 0
    for _ in engine.map(Each(function), in_batches(range(pairs), batch)):
        count += 1
    assert count == pairs
    return time.perf_counter() - began


def opened(stack: ExitStack, kind: Any, workers: int) -> Engine:
    """An engine whose workers have started."""
    settings = EngineSettings(kind=kind, workers=workers)
    began = time.perf_counter()
    engine = stack.enter_context(open_engine(settings))
    seconds_of(engine, 4 * workers, 1, nap)
    print(f"{kind}: open and warm after {time.perf_counter() - began:.1f} s")
    return engine


def ratio(workers: int, pairs: int, runs: int) -> dict[str, Any]:
    """Ray over local, run by run in turn."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        engines = {kind: opened(stack, kind, workers) for kind in KINDS}
        for run in range(runs):
            for kind in KINDS if run % 2 == 0 else KINDS[::-1]:
                times[kind].append(seconds_of(engines[kind], pairs, BATCH, nap))
            last = times["ray"][-1] / times["local"][-1]
            print(f"run {run + 1}: {last:.3f}", flush=True)
    ratios = [r / n for r, n in zip(times["ray"], times["local"], strict=True)]
    ideal = pairs * PAIR_S / workers
    print(f"{pairs} pairs of {PAIR_S * 1000:.0f} ms, {workers} workers, {runs} runs:")
    for kind in KINDS:
        middle = statistics.median(times[kind])
        print(f"  {kind:5} median {middle:.2f} s, {middle / ideal:.3f} of the least")
    print(f"  Ray over local: median {statistics.median(ratios):.3f} (bar 1.10)")
    return {"times": times, "ratios": ratios}


def scale(workers: int, largest: int) -> dict[str, Any]:
    """Empty pairs, more and more of them."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        with ExitStack() as stack:
            engine = opened(stack, kind, workers)
            before = memory_mb()
            for pairs in (10**k for k in range(3, largest + 1)):
                seconds = seconds_of(engine, pairs, EMPTY_BATCH, nothing)
                micro, grown = 1e6 * seconds / pairs, memory_mb() - before
                found[f"{kind} {pairs}"] = {"us_a_pair": micro, "grown_mb": grown}
                print(
                    f"{kind:5} {pairs:>7} pairs: {micro:6.1f} µs a pair (bar 200), "
                    f"driver grown by {grown:5.1f} MB (bar 150)",
                    flush=True,
                )
    return found


def planned(images: int) -> tuple[list[list[Names]], dict[str, ImageRecord]]:
    """All pairs of some images that do not exist, in shards."""
    names = [f"photos/{k:05d}.jpg" for k in range(images)]
    records = {
        name: ImageRecord(
            name=name,
            width=640,
            height=480,
            sha256=f"{k:064x}",
            bytes=1000,
            modified_ns=k,
        )
        for k, name in enumerate(names)
    }
    pairs = exhaustive_pairs(names)
    return [list(batch) for batch in in_batches(pairs, EMPTY_BATCH)], records


def pattern(matches: int, seed: int) -> PairRecord:
    """A pair with so many matches."""
    found, _ = SyntheticMatcher().match(np.eye(3), count=matches, seed=seed)
    return PairRecord(
        image0="",
        image1="",
        state="sound",
        kind="homography",
        model=np.eye(3),
        probability=0.99,
        match_count=matches,
        matches=found,
        weight=np.random.default_rng(seed).uniform(size=matches),
        expected_px=found.fine_std[:, 0],
        fine_scale=found.fine_std,
    )


def clocked(name: str, began: float) -> float:
    """Seconds since then, printed."""
    seconds = time.perf_counter() - began
    print(f"  {name:<34} {seconds:7.2f} s", flush=True)
    return seconds


def store(images: int, matches: int, folder: Path | None) -> dict[str, Any]:
    """A store made, listed, read."""
    place = Path(tempfile.mkdtemp(dir=folder))
    batches, records = planned(images)
    total = sum(map(len, batches))
    print(f"{total:,} pairs of {matches} matches, {len(batches):,} shards:")
    known: dict[str, Any] = {"pairs": total, "shards": len(batches)}
    try:
        made = Store.made(place, Manifest(recipe={"matcher": "synthetic"}))
        digests = {name: image.digest for name, image in records.items()}
        # Of one shard no two pairs are alike, or they would compress too well.
        patterns = [pattern(matches, seed) for seed in range(EMPTY_BATCH)]
        began = time.perf_counter()
        for pairs in batches:
            rows = [
                replace(one, image0=a, image1=b)
                for one, (a, b) in zip(patterns, pairs, strict=False)
            ]
            made.write(made.shard_of(pairs, digests), rows)
        known["made_s"] = clocked("made, by one process", began)
        made.write_images(records.values())
        began = time.perf_counter()
        shards = made.shards()
        known["listed_s"] = clocked("listed", began)
        began = time.perf_counter()
        assert sum(1 for _ in Store.at(place).summaries()) == total
        known["summaries_s"] = clocked("all summaries read", began)
        began = time.perf_counter()
        assert sum(len(r.matches or ()) for r in made.records()) == total * matches
        known["records_s"] = clocked("all matches read", began)
        known |= {"bytes": made.total_bytes(), "files": len(shards) + 2}
        a_match = known["bytes"] / (total * matches)
        print(f"  {known['bytes'] / 1e6:,.1f} MB, {known['files']:,} files, "
              f"{a_match:.1f} bytes a match")  # fmt: skip
    finally:
        shutil.rmtree(place)
    return known


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    choices = ("ratio", "scale", "store")
    parser.add_argument("what", nargs="*", choices=(*choices, []), default=choices)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=160, help="of 200 ms, in a run")
    parser.add_argument("--largest", type=int, default=5, help="power of ten")
    parser.add_argument("--images", type=int, default=STORE_IMAGES)
    parser.add_argument("--matches", type=int, default=50, help="of a stored pair")
    parser.add_argument("--folder", type=Path, default=None, help="for the store")
    parser.add_argument("--json", type=Path, default=None)
    return parser.parse_args()


def main() -> None:
    """Run what was asked for."""
    flags = asked()
    found: dict[str, Any] = {"python": sys.version.split()[0], "cpus": os.cpu_count()}
    for what in flags.what:
        if what == "ratio":
            found[what] = ratio(flags.workers, flags.pairs, flags.runs)
        elif what == "scale":
            found[what] = scale(flags.workers, flags.largest)
        else:
            found[what] = store(flags.images, flags.matches, flags.folder)
    if flags.json is not None:
        flags.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Match the pairs of a list that a store lacks, by an engine.

The list is cut into shards of fixed size, whatever the number of workers, so that every
run of it writes the same files.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from semisure.engine import Engine, EngineSettings, Lost, in_batches, open_engine
from semisure.errors import FileError, InputError
from semisure.io.files import load_calibration
from semisure.io.images import image_bytes, upright_size
from semisure.io.store import Manifest, Store
from semisure.pairs.batch import MatchBatch, PairItem, failed_record
from semisure.pairs.lists import unique_pairs
from semisure.pairs.settings import PairSettings
from semisure.types import Calibration
from semisure.types.display import Begin, quietly
from semisure.types.pair_records import ImageRecord, Names, PairState, PairSummary

PAIRS_A_SHARD = 64


@dataclass(slots=True, kw_only=True)
class PairsOutcome:
    """The outcome of a run over a list of pairs."""

    store: Store
    total: int  # pairs in this part of the list
    earlier: int = 0  # of them were in the store already
    states: Counter[PairState] = field(default_factory=Counter)
    failed: dict[str, list[Names]] = field(default_factory=dict)  # by reason
    seconds: float = 0.0

    def count(self, pair: PairSummary) -> None:
        """Add a pair."""
        self.states[pair.state] += 1
        if pair.state == "failed":
            self.failed.setdefault(pair.reasons[0], []).append(pair.names)

    def document(self) -> dict[str, object]:
        """The same for JSON."""
        return {
            "store": str(self.store.folder),
            "pairs": self.total,
            "already_there": self.earlier,
            **{state: self.states[state] for state in sorted(self.states)},
            "failures": [
                {"reason": reason, "pairs": len(names), "first": list(names[0])}
                for reason, names in self.failed.items()
            ],
            "seconds": round(self.seconds, 3),
            "shards": len(self.store.shards()),
            "bytes": self.store.total_bytes(),
        }


def match_pairs(
    folder: str | Path,
    pairs: Sequence[Names],
    output: str | Path,
    settings: PairSettings | None = None,
    *,
    calibration: Calibration | None = None,
    engine: EngineSettings | Engine | None = None,
    pairs_a_shard: int = PAIRS_A_SHARD,
    shard: str | None = None,
    retry_failed: bool = False,
    begin: Begin = quietly,
) -> PairsOutcome:
    """Match the pairs that the store `output` lacks, names of images in `folder`.

    A pair that cannot be matched is stored with the reason, and tried again only if
    `retry_failed`. With `shard` "K/N", this is the K-th of N jobs of an array.

    >>> import tempfile
    >>> import numpy as np
    >>> from semisure.io.images import write_png
    >>> photos = Path(tempfile.mkdtemp())
    >>> blobs = np.random.default_rng(0).normal(size=(30, 40))
    >>> photo = np.uint8(128 + 40 * np.clip(blobs, -3, 3)).repeat(6, 0).repeat(6, 1)
    >>> write_png(photos / "a.png", photo)
    >>> write_png(photos / "b.png", np.roll(photo, 12, axis=1))
    >>> local = EngineSettings(workers=0)
    >>> outcome = match_pairs(
    ...     photos, [("a.png", "b.png"), ("a.png", "c.png")], photos / "store",
    ...     engine=local)
    >>> outcome.states["sound"], outcome.failed
    (1, {'There is no image c.png.': [('a.png', 'c.png')]})
    """
    settings, folder = settings or PairSettings(), Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no folder of images {folder}.")
    law = calibration or load_calibration(settings.matcher)
    shards = list(in_batches(unique_pairs(pairs), pairs_a_shard))
    if shard is not None:
        shards = _part(shards, shard)
    started = time.monotonic()
    with open_engine(engine) as workers:
        images_folder = os.path.abspath(folder)  # noqa: PTH100, links stay links
        manifest = Manifest(recipe=settings.recipe(law), images=images_folder)
        store = Store.made(output, manifest)
        outcome = PairsOutcome(store=store, total=sum(map(len, shards)))
        digests = _digests(store, folder, shards, begin)
        done = {
            pair.names: pair
            for pair in store.summaries()
            if not (retry_failed and pair.state == "failed")
        }
        for names in chain.from_iterable(shards):
            if names in done:
                outcome.count(done[names])
                outcome.earlier += 1
        todo = [
            [_item(names, digests) for names in part if names not in done]
            for part in shards
        ]
        items = list(chain.from_iterable(todo))
        work = MatchBatch(images_folder, store, settings, law)
        answers = workers.map(work, (batch for batch in todo if batch))
        tick = begin(f"Matching {len(items)} pairs")
        for count, (index, answer) in enumerate(answers, start=1):
            if isinstance(answer, Lost):
                reason = f"It ended every process that had it: {answer.reason}."
                answer = failed_record(items[index], reason)
                store.write([answer])
            outcome.count(answer)
            tick(count, len(items))
    by_count = sorted(outcome.failed.items(), key=lambda entry: -len(entry[1]))
    outcome.failed, outcome.seconds = dict(by_count), time.monotonic() - started
    return outcome


def _part(shards: list[Sequence[Names]], shard: str) -> list[Sequence[Names]]:
    """Every N-th of the shards from the K-th on, for "K/N"."""
    words = re.fullmatch(r"(\d+)/(\d+)", shard)
    if words is None or not 1 <= int(words[1]) <= int(words[2]):
        raise InputError(
            f"A shard must be K/N, K from 1 to N, such as 3/16, but is {shard!r}."
        )
    return shards[int(words[1]) - 1 :: int(words[2])]


def _item(names: Names, digests: Mapping[str, str]) -> PairItem:
    first, second = names
    return PairItem(first, second, digests.get(first, ""), digests.get(second, ""))


# ---- images: each is read for its digest once, whatever the number of its pairs ------


def _digests(
    store: Store, folder: Path, shards: Sequence[Sequence[Names]], begin: Begin
) -> dict[str, str]:
    """Digests of the images that can be read; unchanged ones are not read again."""
    names = sorted({name for shard in shards for pair in shard for name in pair})
    images, new = store.images(), []
    tick = begin(f"Reading {len(names)} images")
    for done, name in enumerate(names, start=1):
        stored = images.get(name)
        image = _image_record(folder / name, name, stored)
        if image is not None and image is not stored:
            images[name] = image
            new.append(image)
        tick(done, len(names))
    if new:
        store.write_images(new)
    return {name: image.digest for name, image in images.items()}


def _image_record(
    path: Path, name: str, stored: ImageRecord | None
) -> ImageRecord | None:
    """The record of a file; `stored` if size and time of the file are still the same.

    None for a file that cannot be read: its pairs fail and say why.
    """
    try:
        stat = path.stat()
        before = None if stored is None else (stored.bytes, stored.modified_ns)
        if before == (stat.st_size, stat.st_mtime_ns):
            return stored
        data = image_bytes(path)
        width, height = upright_size(data, str(path))
    except (FileError, OSError):
        return None
    return ImageRecord(
        name=name,
        width=width,
        height=height,
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=stat.st_size,
        modified_ns=stat.st_mtime_ns,
    )

"""A run: what is left of a list of pairs goes to the engine, and the store fills.

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
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from semisure.engine import (
    Engine,
    EngineSettings,
    Lost,
    in_batches,
    in_order,
    open_engine,
)
from semisure.errors import FileError, InputError, SemisureError
from semisure.io.files import load_calibration
from semisure.io.images import image_bytes, upright_size
from semisure.io.store import Manifest, Store
from semisure.pairs.batch import (
    MatchBatch,
    PairAnswer,
    PairItem,
    failed_record,
    write_shard,
)
from semisure.pairs.lists import unique_pairs
from semisure.pairs.settings import PairSettings
from semisure.types import Calibration
from semisure.types.display import Begin, quietly
from semisure.types.pair_records import ImageRecord, Names, PairState

PAIRS_A_SHARD = 64
IMAGES_A_BATCH = 32


@dataclass(frozen=True, slots=True)
class Part:
    """The `number`-th of `count` jobs of an array, the first being 1."""

    number: int
    count: int

    @classmethod
    def parsed(cls, text: str) -> Part:
        """Of "K/N".

        >>> Part.parsed("2/3")
        Part(number=2, count=3)
        """
        words = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if words is None or not 1 <= int(words[1]) <= int(words[2]):
            raise InputError(
                f"A part must be K/N, K from 1 to N, such as 3/16, but is {text!r}."
            )
        return cls(int(words[1]), int(words[2]))


@dataclass(slots=True, kw_only=True)
class PairsOutcome:
    """What became of the pairs that were asked for."""

    store: Store
    asked: int  # pairs, in this part of the list
    earlier: int = 0  # of them were in the store already
    states: Counter[PairState] = field(default_factory=Counter)
    failed: dict[str, list[Names]] = field(default_factory=dict)  # by reason
    seconds: float = 0.0

    def count(self, names: Names, answer: PairAnswer) -> None:
        """Add a pair."""
        self.states[answer.state] += 1
        if answer.state == "failed":
            self.failed.setdefault(answer.reason, []).append(names)

    def document(self) -> dict[str, object]:
        """The same for JSON."""
        return {
            "store": self.store.name,
            "pairs": self.asked,
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
    part: Part | None = None,
    retry_failed: bool = False,
    max_failures: int | None = None,
    begin: Begin = quietly,
) -> PairsOutcome:
    """Match what the store `output` lacks of `pairs`, names of images in `folder`.

    A pair that cannot be matched is kept with the reason, and tried again only if
    `retry_failed`. Once more than `max_failures` pairs of this run failed, it ends.

    >>> import tempfile
    >>> import numpy as np
    >>> from semisure.io.images import write_png
    >>> photos = Path(tempfile.mkdtemp())
    >>> blobs = np.random.default_rng(0).normal(size=(30, 40))
    >>> photo = np.uint8(128 + 40 * np.clip(blobs, -3, 3)).repeat(6, 0).repeat(6, 1)
    >>> write_png(photos / "a.png", photo)
    >>> write_png(photos / "b.png", np.roll(photo, 12, axis=1))
    >>> here = EngineSettings(workers=0)
    >>> outcome = match_pairs(
    ...     photos, [("a.png", "b.png"), ("a.png", "c.png")], photos / "store",
    ...     engine=here)
    >>> outcome.states["sound"], outcome.failed
    (1, {'There is no image c.png.': [('a.png', 'c.png')]})
    """
    settings, folder = settings or PairSettings(), Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no folder of images {folder}.")
    if pairs_a_shard < 1:
        raise InputError(f"A shard must hold at least 1 pair, not {pairs_a_shard}.")
    law = calibration or load_calibration(settings.matcher)
    started = time.monotonic()
    with ExitStack() as stack:
        if engine is None or isinstance(engine, EngineSettings):
            engine = stack.enter_context(open_engine(engine))
        images_folder = os.path.abspath(folder)  # noqa: PTH100, links stay links
        manifest = Manifest(recipe=settings.recipe(law), images=images_folder)
        store = Store.made(output, manifest)
        shards = list(in_batches(unique_pairs(pairs), pairs_a_shard))
        if part is not None:
            shards = shards[part.number - 1 :: part.count]
        outcome = PairsOutcome(store=store, asked=sum(map(len, shards)))
        digests = _digests(store, folder, shards, engine, begin)
        done = _done(store, retry_failed)
        for names in chain.from_iterable(shards):
            if names in done:
                outcome.count(names, done[names])
                outcome.earlier += 1
        todo = [[names for names in shard if names not in done] for shard in shards]
        left = list(chain.from_iterable(todo))
        work = MatchBatch(images_folder, store.name, store.manifest, settings, law)
        batches = ([_item(p, digests) for p in shard] for shard in todo if shard)
        tick, failed = begin(f"Matching {len(left)} pairs"), 0
        for count, (index, answer) in enumerate(engine.map(work, batches), start=1):
            if isinstance(answer, Lost):
                reason = f"It ended every process that had it: {answer.reason}."
                item = _item(left[index], digests)
                write_shard(store, [item], [failed_record(item, reason)])
                answer = PairAnswer("failed", reason)
            outcome.count(left[index], answer)
            failed += answer.state == "failed"
            if max_failures is not None and failed > max_failures:
                raise SemisureError(
                    f"More than {max_failures} pairs failed, the last "
                    f"({' '.join(left[index])}) because: {answer.reason} What is done "
                    f"is kept in {store.name}; run the command again to continue."
                )
            tick(count, len(left))
    by_count = sorted(outcome.failed.items(), key=lambda entry: -len(entry[1]))
    outcome.failed, outcome.seconds = dict(by_count), time.monotonic() - started
    return outcome


def _item(names: Names, digests: Mapping[str, str]) -> PairItem:
    first, second = names
    return PairItem(first, second, digests.get(first, ""), digests.get(second, ""))


def _done(store: Store, retry_failed: bool) -> dict[Names, PairAnswer]:
    """The pairs that the store has."""
    return {
        pair.names: PairAnswer(pair.state, next(iter(pair.reasons), ""))
        for pair in store.summaries()
        if not (retry_failed and pair.state == "failed")
    }


# ---- images: each is looked at once, whatever the number of its pairs ----------------


def _digests(
    store: Store,
    folder: Path,
    shards: Sequence[Sequence[Names]],
    engine: Engine,
    begin: Begin,
) -> dict[str, str]:
    """Digests of the images that can be read; unchanged ones are not read again."""
    names = sorted({name for shard in shards for pair in shard for name in pair})
    stored = store.images()
    new = [name for name in names if not _is_unchanged(folder / name, stored.get(name))]
    answers = in_order(
        engine,
        partial(image_record, folder),
        new,
        begin(f"Looking at {len(names)} images"),
        batch=IMAGES_A_BATCH,
        lost=lambda name, _: None,
    )
    images = [image for image in answers if image is not None]
    changed = [image for image in images if stored.get(image.name) != image]
    if changed:
        store.write_images(changed)
    digests = {name: image.digest for name, image in stored.items()}
    return digests | {image.name: image.digest for image in images}


def _is_unchanged(path: Path, image: ImageRecord | None) -> bool:
    """Whether size and time of a file are still as they were."""
    try:
        stat = path.stat()
    except OSError:
        return False
    sizes = stat.st_size, stat.st_mtime_ns
    return image is not None and sizes == (image.bytes, image.modified_ns)


def image_record(folder: Path, name: str) -> ImageRecord | None:
    """Size and digest of an image file; None where its pairs will say what is wrong."""
    path = folder / name
    try:
        stat, data = path.stat(), image_bytes(path)
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

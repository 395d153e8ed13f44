"""A run: what is left of a list of pairs goes to the engine, and the store fills."""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from semisure.engine import (
    Engine,
    EngineSettings,
    Lost,
    Part,
    in_batches,
    open_engine,
)
from semisure.errors import InputError, SemisureError
from semisure.io.files import load_calibration
from semisure.io.store import Manifest, Store
from semisure.pairs.batch import (
    MatchBatch,
    PairAnswer,
    PairItem,
    failed_record,
    write_shard,
)
from semisure.pairs.images import described_images
from semisure.pairs.lists import unique_pairs
from semisure.pairs.plan import Plan
from semisure.pairs.settings import PairSettings
from semisure.types import Calibration
from semisure.types.pair_records import ImageRecord, Names, PairState
from semisure.types.progress import Begin, quietly

PAIRS_A_SHARD = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsOutcome:
    """What became of the pairs that were asked for."""

    store: Store
    asked: int  # pairs, in this part of the list
    earlier: int  # of them were in the store already
    states: Counter[PairState] = field(default_factory=Counter)
    failed: dict[str, list[Names]] = field(default_factory=dict)  # by reason
    seconds: float = 0.0

    def document(self) -> dict[str, object]:
        """The same for JSON."""
        shards = self.store.shards()
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
            "shards": len(shards),
            "bytes": sum(shards.values()),
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
    """Match pairs of the images in `folder`, verify each, keep all in a store.

    Run it again to continue: what is in the store is not done twice. A pair that cannot
    be matched is kept with the reason, and tried again with `retry_failed`.

    Parameters
    ----------
    pairs
        Names of images below `folder`; of a pair and its reverse, the first counts.
    output
        A folder, or an fsspec address such as ``s3://bucket/run``.
    part
        Only every N-th shard of the plan: the other machines of an array do the rest.
    max_failures
        End the run once more pairs than these have failed.

    Examples
    --------
    >>> import numpy as np, tempfile
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
        recipe = settings.recipe(law)
        images_folder = os.path.abspath(folder)  # noqa: PTH100, links stay links
        store = Store.made(output, Manifest(recipe=recipe, images=images_folder))
        listed = list(in_batches(unique_pairs(pairs), pairs_a_shard))
        wanted = listed if part is None else list(part.of(listed))
        images = _look_at_images(store, folder, wanted, engine, begin)
        plan = Plan.of(store, listed, images, part=part, retry_failed=retry_failed)
        work = MatchBatch(images_folder, store.name, store.manifest, settings, law)
        run = _Run(store, plan, max_failures)
        left, tick = plan.left, begin(f"Matching {plan.left} pairs")
        for done, (index, answer) in enumerate(engine.map(work, run.batches()), 1):
            run.hear(index, answer)
            tick(done, left)
    outcome = run.outcome(time.monotonic() - started)
    _keep_run(outcome)
    return outcome


def _look_at_images(
    store: Store,
    folder: Path,
    wanted: Sequence[Sequence[Names]],
    engine: Engine,
    begin: Begin,
) -> dict[str, ImageRecord]:
    names = sorted({name for batch in wanted for pair in batch for name in pair})
    known = store.images()
    tick = begin(f"Looking at {len(names)} images")
    images = described_images(folder, names, known, engine, tick)
    new = [image for image in images if known.get(image.name) != image]
    if new:
        store.write_images(new)
    return known | {image.name: image for image in images}


class _Run:
    """Answers as they come, by the pairs they are of."""

    def __init__(self, store: Store, plan: Plan, max_failures: int | None) -> None:
        self._store, self._plan, self._most = store, plan, max_failures
        self._given: dict[int, PairItem] = {}  # those that are being worked on
        self._states: Counter[PairState] = Counter()
        self._failed: dict[str, list[Names]] = {}

    def batches(self) -> Iterator[Sequence[PairItem]]:
        index = 0
        for items in self._plan.batches():
            self._given.update(enumerate(items, start=index))
            index += len(items)
            yield items

    def hear(self, index: int, answer: PairAnswer | Lost) -> None:
        item = self._given.pop(index)
        if isinstance(answer, Lost):
            reason = f"It ended every process that had it: {answer.reason}."
            write_shard(self._store, [item], [failed_record(item, reason)])
            answer = PairAnswer("failed", reason)
        self._states[answer.state] += 1
        if answer.state == "failed":
            self._failed.setdefault(answer.reason, []).append(item.names)
            self._check_failures()

    def _check_failures(self) -> None:
        if self._most is not None and self._states["failed"] > self._most:
            reason, names = next(iter(self._failed.items()))
            raise SemisureError(
                f"More than {self._most} pairs failed, the first ({' '.join(names[0])})"
                f" because: {reason} What is done is kept in {self._store.name}; run "
                "the command again to continue."
            )

    def outcome(self, seconds: float) -> PairsOutcome:
        states, failed = self._states, self._failed
        for pair in self._plan.earlier():
            states[pair.state] += 1
            if pair.state == "failed":
                reason = next(iter(pair.reasons), "unknown")
                failed.setdefault(reason, []).append(pair.names)
        by_count = sorted(failed.items(), key=lambda entry: -len(entry[1]))
        return PairsOutcome(
            store=self._store,
            asked=self._plan.asked,
            earlier=self._plan.asked - self._plan.left,
            states=states,
            failed=dict(by_count),
            seconds=seconds,
        )


def _keep_run(outcome: PairsOutcome) -> None:
    """Times beside the answers, not inside: shards stay byte for byte the same."""
    began = time.gmtime(time.time() - outcome.seconds)
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', began)}-{secrets.token_hex(4)}"
    document = {
        "host": platform.node(),
        "pairs": outcome.asked,
        "matched_now": outcome.asked - outcome.earlier,
        "seconds": round(outcome.seconds, 3),
    }
    outcome.store.write_run(name, document)

"""What a worker does: matches some pairs, and puts their shard in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from semisure.engine import in_batches
from semisure.errors import FileError, InputError, SemisureError, in_short
from semisure.io.images import Image, read_image
from semisure.io.places import place_of
from semisure.io.shards import as_stored
from semisure.io.store import Manifest, Store
from semisure.matchers import NamedMatcher, fingerprint
from semisure.pairs.estimation import match_pair
from semisure.pairs.result import PairResult
from semisure.pairs.settings import PairSettings
from semisure.types import Calibration, Matcher, Matches
from semisure.types.pair_records import Names, PairRecord, PairState, Size

IMAGES_KEPT = 4  # decoded, at least: pairs that follow each other share images


@dataclass(frozen=True, slots=True)
class PairItem:
    """A pair to be matched, and the digests of its images."""

    image0: str
    image1: str
    digest0: str = ""
    digest1: str = ""

    @property
    def names(self) -> Names:
        return self.image0, self.image1

    def digests(self) -> dict[str, str]:
        return {self.image0: self.digest0, self.image1: self.digest1}


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """What the driver hears of a pair; its matches are in the store."""

    state: PairState
    reason: str = ""  # why it failed


@dataclass(frozen=True, slots=True)
class MatchBatch:
    """A batch of pairs in, a shard in the store, small answers out."""

    folder: str  # of the images
    store: str
    manifest: Manifest
    settings: PairSettings
    calibration: Calibration

    def __call__(self, items: Sequence[PairItem]) -> list[PairAnswer]:
        matcher = self._matcher()
        records: list[PairRecord] = []
        for some in in_batches(items, self.settings.batch):
            known = self._together(some, matcher)
            records += [self._record(i, known.get(i.names, matcher)) for i in some]
        write_shard(Store(place_of(self.store), self.manifest), items, records)
        return [PairAnswer(r.state, _why_failed(r)) for r in records]

    def _matcher(self) -> Matcher:
        """The matcher, whose weights and code must be the driver's."""
        settings = self.settings
        mine = _fingerprint(settings.matcher, settings.weights)
        theirs = self.manifest.recipe["matcher"]
        for name, value in mine.items():
            if theirs[name] != value:
                raise InputError(
                    f"The {name} of {settings.matcher} in a worker are others than "
                    "the driver's. Put the same files on all machines."
                )
        return NamedMatcher(
            settings.matcher, settings.max_side, settings.device, settings.weights
        ).loaded()

    def _together(
        self, items: Sequence[PairItem], matcher: Matcher
    ) -> dict[Names, Matcher]:
        """Matchers that know the answers of pairs which the network saw together.

        None if one of the pairs cannot be matched: each is tried alone then, and that
        one says why.
        """
        many = getattr(matcher, "match_many", None)
        if many is None or len(items) < 2:
            return {}
        try:
            found = many([self._images(item) for item in items])
        except Exception:  # noqa: BLE001, told by the pair alone
            return {}
        return {i.names: _knowing(m) for i, m in zip(items, found, strict=True)}

    def _images(self, item: PairItem) -> tuple[Image, Image]:
        """Both images; pairs that follow each other get the same arrays."""
        read = _reader(max(IMAGES_KEPT, 2 * self.settings.batch))
        image0 = read(Path(self.folder, item.image0), item.digest0)
        return image0, read(Path(self.folder, item.image1), item.digest1)

    def _record(self, item: PairItem, matcher: Matcher) -> PairRecord:
        try:
            return self._matched(item, matcher)
        except SemisureError as error:
            # Without the folder: the same reason wherever the images lie.
            return failed_record(item, str(error).replace(f"{self.folder}{os.sep}", ""))
        except MemoryError:
            return failed_record(item, "There is not enough memory for this pair.")
        except Exception as error:  # noqa: BLE001, a night's work is not lost for one
            told = f"{type(error).__name__}: {in_short(error)}"
            return failed_record(item, f"An internal error occurred: {told}.")

    def _matched(self, item: PairItem, matcher: Matcher) -> PairRecord:
        files = Path(self.folder, item.image0), Path(self.folder, item.image1)
        for file, name in zip(files, item.names, strict=True):
            if not os.path.isfile(file):  # noqa: PTH113, of any name
                raise FileError(f"There is no image {name}.")
        image0, image1 = self._images(item)
        settings = self.settings
        if settings.model == "none":
            return record_of_matches(item, matcher(image0, image1))

        def stored_matches(image0: Image, image1: Image) -> Matches:
            return as_stored(matcher(image0, image1))

        sizes = _size(image0), _size(image1)
        cameras = settings.intrinsics.cameras(files, sizes) or (None, None)
        without = settings.model == "essential" and cameras[0] is None
        result = match_pair(
            image0,
            image1,
            stored_matches,  # so that a refit of the store's matches gives this model
            self.calibration,
            model="fundamental" if without else settings.model,
            estimator=settings.estimator,
            method=settings.method,
            settings=settings.ransac(),
            K0=cameras[0],
            K1=cameras[1],
        )
        return record_of_result(item, result)


def _knowing(matches: Matches) -> Matcher:
    """A matcher of one pair, whose matches are there already."""
    return lambda image0, image1: matches


def write_shard(
    store: Store, items: Sequence[PairItem], records: Sequence[PairRecord]
) -> None:
    """Put records in place under the name that their pairs give."""
    digests = {name: d for item in items for name, d in item.digests().items()}
    store.write(store.shard_of([item.names for item in items], digests), records)


def record_of_result(item: PairItem, result: PairResult) -> PairRecord:
    """What is kept of a pair's result."""
    verdict, model = result.verdict, result.refit.model
    reasons = verdict.reasons
    if model is None and result.refit.reason:
        reasons = (result.refit.reason,)
    return PairRecord(
        **_ends(item),
        state=verdict.name,
        match_count=len(result.matches),
        probability=verdict.probability,
        model_failure=result.model_failure,
        kind=None if model is None else result.kind,
        model=model,
        cameras=result.cameras,
        reasons=reasons,
        matches=result.matches,
        weight=None if model is None else result.refit.weight,
        expected_px=result.expected_px,
        fine_scale=result.blind_law.fine_scale,
    )


def record_of_matches(item: PairItem, matches: Matches) -> PairRecord:
    """What is kept where no model was asked for."""
    return PairRecord(
        **_ends(item), state="matched", match_count=len(matches), matches=matches
    )


def failed_record(item: PairItem, reason: str) -> PairRecord:
    """What is kept of a pair that could not be matched."""
    return PairRecord(**_ends(item), state="failed", reasons=(reason,))


def _ends(item: PairItem) -> dict[str, Any]:
    return {
        "image0": item.image0,
        "image1": item.image1,
        "digest0": item.digest0,
        "digest1": item.digest1,
    }


def _why_failed(record: PairRecord) -> str:
    return record.reasons[0] if record.state == "failed" else ""


def _size(image: Image) -> Size:
    return image.shape[1], image.shape[0]


@lru_cache(maxsize=1)
def _reader(kept: int) -> Callable[[Path, str], Image]:
    """Reads images by path and digest, and keeps the last ones."""
    return lru_cache(maxsize=kept)(_read)


def _read(path: Path, digest: str) -> Image:
    image = read_image(path)
    image.setflags(write=False)
    return image


@lru_cache(maxsize=1)
def _fingerprint(name: str, weights: Path | None) -> dict[str, str]:
    return fingerprint(name, weights)

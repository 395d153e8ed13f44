"""The task of a worker: match a batch of pairs and write their shard."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from semisure.errors import FileError, InputError, SemisureError, in_short
from semisure.io.images import Image, read_image
from semisure.io.shards import as_stored
from semisure.io.store import Store
from semisure.matchers import NamedMatcher, fingerprint
from semisure.pairs.estimation import refit_matches
from semisure.pairs.result import PairResult
from semisure.pairs.settings import PairSettings
from semisure.types import Calibration, Matcher, Matches
from semisure.types.pair_records import Names, PairRecord, PairSummary, Size

IMAGES_KEPT = 4  # decoded images in memory: consecutive pairs share them


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


ImageReader: TypeAlias = Callable[[str], Image]  # by the name in the folder


@dataclass(frozen=True, slots=True)
class MatchBatch:
    """Matches a batch of pairs, writes their shard, returns their summaries."""

    folder: str  # of the images
    store: Store
    settings: PairSettings
    calibration: Calibration

    def __call__(self, items: Sequence[PairItem]) -> list[PairSummary]:
        matcher = self._matcher()
        # Consecutive pairs get the same arrays.
        read = lru_cache(maxsize=IMAGES_KEPT)(self._image)
        records = [self._record(item, matcher, read) for item in items]
        self.store.write(records)
        return [record.summary() for record in records]

    def _matcher(self) -> Matcher:
        """The matcher; raises if its weights or code differ from the driver's."""
        settings = self.settings
        recipe = self.store.manifest.recipe["matcher"]
        for name, value in _fingerprint(settings.matcher, settings.weights).items():
            if recipe[name] != value:
                raise InputError(
                    f"A worker has another {name} of {settings.matcher} than the "
                    "driver. Put the same files on all machines."
                )
        return NamedMatcher(
            settings.matcher, settings.max_side, settings.device, settings.weights
        ).loaded()

    def _image(self, name: str) -> Image:
        path = Path(self.folder, name)
        if not os.path.isfile(path):  # noqa: PTH113, of any name
            raise FileError(f"There is no image {name}.")
        image = read_image(path)
        image.setflags(write=False)
        return image

    def _record(
        self, item: PairItem, matcher: Matcher, read: ImageReader
    ) -> PairRecord:
        try:
            images = read(item.image0), read(item.image1)
            return self._matched(item, images, matcher(*images))
        except SemisureError as error:
            # Without the folder: the same reason wherever the images lie.
            return failed_record(item, str(error).replace(f"{self.folder}{os.sep}", ""))
        except Exception as error:  # noqa: BLE001, a night's work is not lost for one
            reason = f"{type(error).__name__}: {in_short(error)}"
            return failed_record(item, f"An internal error occurred: {reason}.")

    def _matched(
        self, item: PairItem, images: tuple[Image, Image], matches: Matches
    ) -> PairRecord:
        settings = self.settings
        if settings.model == "none":
            return PairRecord(
                **asdict(item),
                state="matched",
                match_count=len(matches),
                matches=matches,
            )
        K0, K1 = (
            settings.camera(_size(image), Path(self.folder, name))
            for image, name in zip(images, item.names, strict=True)
        )
        if K0 is None or K1 is None:
            K0 = K1 = None
        uncalibrated = settings.model == "essential" and K0 is None
        result = refit_matches(
            as_stored(matches),  # so that a refit of the store's gives this model
            self.calibration,
            model="fundamental" if uncalibrated else settings.model,
            estimator=settings.estimator,
            method=settings.method,
            settings=settings.ransac(),
            K0=K0,
            K1=K1,
        )
        return record_of_result(item, result)


def record_of_result(item: PairItem, result: PairResult) -> PairRecord:
    """The record of a pair's result."""
    verdict, model = result.verdict, result.refit.model
    reasons = verdict.reasons
    if model is None and result.refit.reason:
        reasons = (result.refit.reason,)
    return PairRecord(
        **asdict(item),
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


def failed_record(item: PairItem, reason: str) -> PairRecord:
    """The record of a pair that could not be matched."""
    return PairRecord(**asdict(item), state="failed", reasons=(reason,))


def _size(image: Image) -> Size:
    return image.shape[1], image.shape[0]


_fingerprint = lru_cache(maxsize=1)(fingerprint)  # of the weights of many batches

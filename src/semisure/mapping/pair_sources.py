"""Where matched pairs come from: a store, or one HDF5 file of `semisure localize`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from semisure.errors import InputError
from semisure.io.files import calibration_document
from semisure.io.hloc import read_matches, read_retrieval
from semisure.io.store import Manifest, Store
from semisure.types import Calibration
from semisure.types.pair_records import PairRecord, PairSummary


class PairSource(Protocol):
    """What an export reads: all that it asks of a store."""

    @property
    def name(self) -> str: ...
    @property
    def manifest(self) -> Manifest: ...
    def images(self) -> Mapping[str, Any]: ...
    def summaries(self) -> Iterable[PairSummary]: ...
    def records(self) -> Iterable[PairRecord]: ...


@dataclass(frozen=True, slots=True)
class MatchesFile:
    """Pairs of a file of dense matches in hloc's layout, with our cues.

    Such a file turns slashes in names into dashes, so that names must be listed.
    """

    name: str
    pairs: Path  # hloc's list of pairs
    calibration: Calibration | None

    @property
    def manifest(self) -> Manifest:
        if self.calibration is None:
            return Manifest(recipe={})
        return Manifest(recipe={"calibration": calibration_document(self.calibration)})

    def images(self) -> dict[str, Any]:
        return {}

    def summaries(self) -> Iterator[PairSummary]:
        for first, others in read_retrieval(self.pairs).items():
            for second in others:
                yield PairSummary(image0=first, image1=second, state="matched")

    def records(self) -> Iterator[PairRecord]:
        for pair in self.summaries():
            matches = read_matches(self.name, *pair.names)
            yield PairRecord(
                image0=pair.image0,
                image1=pair.image1,
                state="matched",
                match_count=len(matches),
                matches=matches,
            )


def source_of(
    address: str | Path, pairs: Path | None, calibration: Calibration | None
) -> PairSource:
    """The store at `address`, or the file of matches, whose `pairs` are then needed."""
    if not Path(address).is_file():
        return Store.at(address)
    if pairs is None:
        raise InputError(
            f"{address} is a file of matches, which does not tell image names: give "
            "the list of its pairs with --pairs."
        )
    return MatchesFile(str(address), pairs, calibration)

"""What is left to do of a list of pairs.

The plan cuts the list into shards of fixed size, whatever the number of workers, so
that every run of it writes the same files. A shard whose name is there is done, which a
listing tells. Pairs may also be in other shards, by an earlier list or because a batch
was split: those are read, names only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from semisure.engine import Part
from semisure.io.store import Store
from semisure.pairs.batch import PairItem
from semisure.types.pair_records import ImageRecord, Names, PairSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Batches of pairs that are wanted, and what is left of them."""

    store: Store
    asked: int  # pairs that are wanted
    todo: Sequence[Sequence[Names]]  # what is left, a shard each
    digests: Mapping[str, str]  # of images by name
    there: frozenset[str]  # shards of the plan that are in the store
    elsewhere: Mapping[Names, PairSummary]  # wanted pairs in other shards
    again: frozenset[Names]  # pairs of `there` that failed and are to be tried again

    @classmethod
    def of(
        cls,
        store: Store,
        listed: Sequence[Sequence[Names]],
        images: Mapping[str, ImageRecord],
        *,
        part: Part | None = None,
        retry_failed: bool = False,
    ) -> Plan:
        """What the store lacks of a list of batches, or of a part of them."""
        digests = {name: image.digest for name, image in images.items()}
        named = {store.shard_of(pairs, digests): pairs for pairs in listed}
        present = store.shards().keys()
        mine = named if part is None else dict(part.of(named.items()))
        there = frozenset(mine.keys() & present)
        elsewhere = _elsewhere(store, mine, present - named.keys(), retry_failed)
        again: frozenset[Names] = frozenset()
        if retry_failed:
            failed = (p for p in store.summaries(there) if p.state == "failed")
            again = frozenset(p.names for p in failed if p.names not in elsewhere)
        todo = [
            [p for p in pairs if (p in again if k in there else p not in elsewhere)]
            for k, pairs in mine.items()
        ]
        return cls(
            store=store,
            asked=sum(map(len, mine.values())),
            todo=[pairs for pairs in todo if pairs],
            digests=digests,
            there=there,
            elsewhere=elsewhere,
            again=again,
        )

    @property
    def left(self) -> int:
        """The number of pairs that are not done."""
        return sum(map(len, self.todo))

    def batches(self) -> Iterator[Sequence[PairItem]]:
        """What is left, a shard at a time."""
        known = self.digests
        for pairs in self.todo:
            yield [PairItem(a, b, known.get(a, ""), known.get(b, "")) for a, b in pairs]

    def earlier(self) -> Iterator[PairSummary]:
        """The pairs that are done, as the store has them."""
        for pair in self.store.summaries(self.there):
            if pair.names not in self.again and pair.names not in self.elsewhere:
                yield pair
        yield from self.elsewhere.values()


def _elsewhere(
    store: Store,
    mine: Mapping[str, Sequence[Names]],
    others: Iterable[str],
    retry_failed: bool,
) -> dict[Names, PairSummary]:
    """Wanted pairs that other shards hold, by an earlier list or a batch in parts."""
    found = {pair.names: pair for pair in store.summaries(others)}
    if retry_failed:
        found = {names: p for names, p in found.items() if p.state != "failed"}
    if not found:
        return {}
    return {p: found[p] for pairs in mine.values() for p in pairs if p in found}

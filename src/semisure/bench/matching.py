"""Pairs to be matched as jobs for the workers, and what to do with those that fail."""

from __future__ import annotations

from collections.abc import Sequence

from semisure.bench.exported import AnyPair, Exported, Size
from semisure.bench.match_cache import Job, Setup, export
from semisure.bench.options import Options
from semisure.engine import Lost
from semisure.errors import FileError
from semisure.io.sources import digest, room
from semisure.matchers import fingerprint


def jobs(
    options: Options,
    matcher: str,
    pairs: Sequence[tuple[AnyPair, Size | None]],
    *,
    for_queries: bool = False,
) -> list[Job]:
    """A job for each pair at its size; None leaves the images as they are."""
    code = repr([fingerprint(matcher, options.weights), digest(room("io.images"))])
    return [
        Job(
            pair=pair,
            setup=Setup(
                matcher=matcher,
                size=size,
                query_first=for_queries,
                upright=for_queries,
                max_side=options.max_side,
                weights=options.weights,
                device=options.device,
            ),
            cache=options.cache,
            fingerprint=code,
        )
        for pair, size in pairs
    ]


def attempt(job: Job) -> Exported | FileError:
    """The pair with its matches; a file that cannot be read is an answer, no error."""
    try:
        return export(job)
    except FileError as error:
        return error


def lost(job: Job, why: Lost) -> FileError:
    """The answer for a pair that ended every process it was given to."""
    return FileError(
        f"The pair {job.pair.name} ended every process that had it: {why.reason}."
    )


def readable(
    answers: Sequence[Exported | FileError], *, allowed: int
) -> tuple[list[Exported], str]:
    """The pairs that could be matched, and a remark on the others, "" if none.

    More than `allowed` others are an error, and so is it if no pair is left.
    """
    exported = [one for one in answers if isinstance(one, Exported)]
    errors = dict.fromkeys(str(e) for e in answers if isinstance(e, FileError))
    if not errors:
        return exported, ""
    count = f"{len(answers) - len(exported)} of {len(answers)} pairs"
    if len(answers) - len(exported) > allowed or not exported:
        raise FileError(
            f"{count} cannot be matched; the first because: {next(iter(errors))} "
            "Mend the data, or leave such pairs out with --keep-going; the matches "
            "of the others are kept."
        )
    return exported, f"{count} are left out: {' '.join(errors)}"

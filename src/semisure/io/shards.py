"""Pairs as rows of a Parquet file, matches as lists of float32: the one pyarrow user.

A column is named as in a CSV file of matches. A coordinate keeps 24 bits, so that its
error is below 0.0003 px in an image of 8,192 px. Models and probabilities stay
float64. The same pairs give the same bytes, with one version of pyarrow. Files are
written whole, and their pages carry checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from semisure.errors import FileError, MissingExtraError, in_short
from semisure.io.atomic import appearing_whole
from semisure.types import Array, FloatArray, Matches
from semisure.types.matches import COLUMN_NAMES
from semisure.types.pair_records import (
    ImageRecord,
    PairRecord,
    PairSummary,
    check_name,
)

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    raise MissingExtraError("pyarrow", "store", "A store of pairs") from None

T = TypeVar("T")
Row = Mapping[str, Any]

PAIRS_A_GROUP = 64  # read together: some megabytes
_SIZES = ("width0", "height0", "width1", "height1")
_CUES = (  # fields of matches
    *("source", "target", "confidence", "fine_std", "coarse_std"),
    *("side", "fine_window", "cell"),
)
_JUDGED = ("weight", "expected_px", "fine_scale")  # fields of a record
_COLUMNS = {**COLUMN_NAMES, "fine_scale": ("fine_scale_x", "fine_scale_y")}
_NUMBERS = [c for name in (*_CUES, *_JUDGED) for c in _COLUMNS.get(name, (name,))]
_SUMMARY = [field.name for field in fields(PairSummary)]
_SMALLEST = np.finfo(np.float32).tiny  # a confidence must not become 0

# Every column with its type, so that reading has to check no types.
_IMAGE_TYPES = {
    "name": pa.string(),
    **dict.fromkeys(("width", "height"), pa.int64()),
    "sha256": pa.string(),
    **dict.fromkeys(("bytes", "modified_ns"), pa.int64()),
}
_PAIR_TYPES = {
    **dict.fromkeys(("image0", "image1", "digest0", "digest1"), pa.string()),
    "state": pa.string(),
    "match_count": pa.int32(),
    **dict.fromkeys(("probability", "model_failure"), pa.float64()),
    "reasons": pa.list_(pa.field("element", pa.string(), nullable=False)),
}
_OPTIONAL_TYPES = {
    "kind": pa.string(),
    **dict.fromkeys(("model", "cameras"), pa.list_(pa.float64())),
    **dict.fromkeys(_SIZES, pa.int32()),
    **dict.fromkeys(_NUMBERS, pa.list_(pa.float32())),
}
_IMAGES = pa.schema(
    [pa.field(name, kind, nullable=False) for name, kind in _IMAGE_TYPES.items()]
)
_PAIRS = pa.schema(
    [pa.field(name, kind, nullable=False) for name, kind in _PAIR_TYPES.items()]
    + [pa.field(name, kind) for name, kind in _OPTIONAL_TYPES.items()]
)


def as_stored(matches: Matches) -> Matches:
    """The matches as a file gives them back, so that both give the same results.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=9)
    >>> once = as_stored(matches)
    >>> 0 < np.abs(once.target - matches.target).max() < 1e-4
    np.True_
    """
    return _matches(_columns(matches))


def write_pairs(path: Path, records: Sequence[PairRecord]) -> None:
    """Write pairs in their order."""
    # Byte by byte: numbers seldom repeat, but their first bytes do.
    split = [f"{column}.list.element" for column in _NUMBERS]
    _write(path, [_row(record) for record in records], _PAIRS, split)


def write_images(path: Path, images: Sequence[ImageRecord]) -> None:
    """Write a table of images."""
    _write(path, [asdict(image) for image in images], _IMAGES, [])


def summaries_in(path: Path) -> Iterator[PairSummary]:
    """The pairs of a file without their matches."""
    return _read(path, _PAIRS, lambda row: PairSummary(**_summary(row)), _SUMMARY)


def records_in(path: Path) -> Iterator[PairRecord]:
    """The pairs of a file."""
    return _read(path, _PAIRS, _record)


def record_in(path: Path, row: int) -> PairRecord:
    """One pair of a file by its position."""
    group, within = divmod(row, PAIRS_A_GROUP)
    return list(_read(path, _PAIRS, _record, group=group))[within]


def images_in(path: Path) -> Iterator[ImageRecord]:
    """The images of a table."""
    return _read(path, _IMAGES, _image)


# ---- to rows -------------------------------------------------------------------------


def _write(path: Path, rows: list[Row], schema: Any, split: list[str]) -> None:
    table = pa.Table.from_pylist(rows, schema=schema)
    with appearing_whole(path) as part:
        pq.write_table(
            table,
            part,
            row_group_size=PAIRS_A_GROUP if split else None,
            compression="zstd",
            compression_level=3,
            use_dictionary=False,
            use_byte_stream_split=split,
            write_page_checksum=True,
        )


def _row(record: PairRecord) -> Row:
    row: dict[str, Any] = {name: getattr(record, name) for name in _SUMMARY}
    for name in ("model", "cameras"):
        row[name] = None if row[name] is None else np.ravel(row[name])
    if record.matches is not None:
        row |= {**_columns(record.matches), "match_count": len(record.matches)}
    for name in _JUDGED:
        row |= _split(name, getattr(record, name))
    return row


def _columns(matches: Matches) -> dict[str, Any]:
    sizes = (*matches.source_size, *matches.target_size)
    row: dict[str, Any] = dict(zip(_SIZES, sizes, strict=True))
    for name in _CUES:
        row |= _split(name, getattr(matches, name))
    return row


def _split(name: str, array: Array | None) -> dict[str, Array]:
    """The columns of an array of n rows."""
    if array is None:
        return {}
    columns = _COLUMNS.get(name, (name,))
    numbers = array.reshape(len(array), len(columns)).astype(np.float32)
    if name == "confidence":
        numbers = np.maximum(numbers, _SMALLEST)
    return {c: np.ascontiguousarray(numbers[:, k]) for k, c in enumerate(columns)}


# ---- from rows -----------------------------------------------------------------------


def _read(
    path: Path,
    schema: Any,
    build: Callable[[Row], T],
    columns: list[str] | None = None,
    group: int | None = None,
) -> Iterator[T]:
    """The objects that `build` makes of the rows; lists of numbers come as arrays."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            if not parquet.schema_arrow.equals(schema):
                raise ValueError("its columns are not those of a store")
            groups = range(parquet.num_row_groups) if group is None else (group,)
            for k in groups:
                table = parquet.read_row_group(k, columns)
                entries = {c: _entries(table[c]) for c in table.column_names}
                for row in range(table.num_rows):
                    yield build({c: values[row] for c, values in entries.items()})
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError) as error:
        raise FileError(
            f"{path} is not a readable part of a store: {in_short(error)}. Delete it "
            "and run the command again."
        ) from None


def _entries(column: Any) -> list[Any]:
    """The entries of a column; lists of numbers as arrays, not as Python's numbers."""
    kind = column.type
    if not pa.types.is_list(kind) or pa.types.is_string(kind.value_type):
        return list(column.to_pylist())
    parts = (entry.values for entry in column)
    return [p if p is None else p.to_numpy(zero_copy_only=False) for p in parts]


def _image(row: Row) -> ImageRecord:
    check_name(row["name"])
    return ImageRecord(**row)


def _summary(row: Row) -> dict[str, Any]:
    """The fields of a summary."""
    check_name(row["image0"])
    check_name(row["image1"])
    summary = {name: row[name] for name in _SUMMARY}
    summary["reasons"] = tuple(row["reasons"])
    if row["cameras"] is not None:
        summary["cameras"] = tuple(row["cameras"].reshape(2, 3, 3))
    if row["model"] is not None:
        shape = (3, 4) if row["kind"] == "essential" else (3, 3)
        summary["model"] = row["model"].reshape(shape)
    return summary


def _record(row: Row) -> PairRecord:
    judged: dict[str, Any] = {name: _joined(name, row) for name in _JUDGED}
    matches = None if row["x0"] is None else _matches(row)
    return PairRecord(**_summary(row), matches=matches, **judged)


def _matches(row: Row) -> Matches:
    cues: dict[str, Any] = {name: _joined(name, row) for name in _CUES}
    if cues["cell"] is not None:
        cues["cell"] = cues["cell"].reshape(-1, 2, 3)
    width0, height0, width1, height1 = (row[name] for name in _SIZES)
    return Matches(**cues, source_size=(width0, height0), target_size=(width1, height1))


def _joined(name: str, row: Row) -> FloatArray | None:
    """The array of n rows whose columns are in a row of the file, as float64."""
    columns: list[Any] = [row.get(c) for c in _COLUMNS.get(name, (name,))]
    if columns[0] is None:
        return None
    joined = np.stack(columns, axis=1).astype(np.float64)
    return joined if len(columns) > 1 else joined[:, 0]

"""Pairs as rows of a Parquet file, matches as lists of float32: the one pyarrow user.

A column is named as in a CSV file of matches. A coordinate keeps 24 bits, so that it
errs by less than 0.0003 px in an image of 8,192 px. Models and probabilities stay
float64. The same pairs give the same bytes, with one version of pyarrow. Files are
written whole, and their pages carry checksums.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import IO, Any

import numpy as np

from semisure.errors import FileError, MissingExtraError, in_short
from semisure.types import Array, FloatArray, Matches, as_choice
from semisure.types.matches import COLUMN_NAMES
from semisure.types.pair_records import (
    MODEL_KINDS,
    PAIR_STATES,
    ImageRecord,
    PairRecord,
    PairSummary,
    check_name,
)

PAIRS_A_GROUP = 64  # read together: some megabytes
_SIZES = ("width0", "height0", "width1", "height1")
_CUES = (  # fields of matches
    *("source", "target", "confidence", "fine_std", "coarse_std"),
    *("side", "fine_window", "cell"),
)
_JUDGED = ("weight", "expected_px", "fine_scale")  # fields of a record
_COLUMNS = {**COLUMN_NAMES, "fine_scale": ("fine_scale_x", "fine_scale_y")}
_SUMMARY = [field.name for field in fields(PairSummary)]
_SMALLEST = np.finfo(np.float32).tiny  # a confidence must not become 0

Row = Mapping[str, Any]


def as_stored(matches: Matches) -> Matches:
    """The matches as they come back from a file: what is computed from both is alike.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=9)
    >>> once = as_stored(matches)
    >>> 0 < np.abs(once.target - matches.target).max() < 1e-4
    np.True_
    """
    return _matches(_columns(matches))


def parquet_of(records: Sequence[PairRecord]) -> bytes:
    """The file that holds these pairs, in their order."""
    pa, _ = require_pyarrow()
    rows = [_row(record) for record in records]
    schema = _pair_schema(pa)
    columns = [pa.array([row[f.name] for row in rows], f.type) for f in schema]
    return _written(pa.Table.from_arrays(columns, schema=schema))


def summaries_in(file: IO[bytes], name: str) -> Iterator[PairSummary]:
    """The pairs of a file without their matches."""
    pa, _ = require_pyarrow()
    with _whole(name):
        for row in _rows(file, _pair_schema(pa), _SUMMARY):
            yield PairSummary(**_summary(row))


def records_in(
    file: IO[bytes], name: str, group: int | None = None
) -> Iterator[PairRecord]:
    """The pairs of a file, or of one of its groups."""
    pa, _ = require_pyarrow()
    with _whole(name):
        for row in _rows(file, _pair_schema(pa), group=group):
            yield _record(row)


def record_in(file: IO[bytes], name: str, row: int) -> PairRecord:
    """One pair of a file by its position."""
    group, within = divmod(row, PAIRS_A_GROUP)
    return list(records_in(file, name, group))[within]


def parquet_of_images(images: Sequence[ImageRecord]) -> bytes:
    """The table of a store's images."""
    pa, _ = require_pyarrow()
    rows = [asdict(image) for image in images]
    return _written(pa.Table.from_pylist(rows, schema=_image_schema(pa)))


def images_in(file: IO[bytes], name: str) -> list[ImageRecord]:
    """The images of such a table."""
    pa, _ = require_pyarrow()
    with _whole(name):
        images = [ImageRecord(**row) for row in _rows(file, _image_schema(pa))]
        for image in images:
            check_name(image.name)
    return images


def _image_schema(pa: Any) -> Any:
    integers = "width", "height", "bytes", "modified_ns"
    types = {f.name: pa.int64() if f.name in integers else pa.string()
             for f in fields(ImageRecord)}  # fmt: skip
    return pa.schema([pa.field(n, kind, nullable=False) for n, kind in types.items()])


def _pair_schema(pa: Any) -> Any:
    """Every column with its type, so that reading has to check no types."""
    present = {
        **dict.fromkeys(("image0", "image1", "digest0", "digest1"), pa.string()),
        "state": pa.string(),
        "match_count": pa.int32(),
        **dict.fromkeys(("probability", "model_failure"), pa.float64()),
        "reasons": pa.list_(pa.field("element", pa.string(), nullable=False)),
    }
    perhaps = {
        "kind": pa.string(),
        **dict.fromkeys(("model", "cameras"), pa.list_(pa.float64())),
        **dict.fromkeys(_SIZES, pa.int32()),
        **dict.fromkeys(_number_columns(), pa.list_(pa.float32())),
    }
    return pa.schema(
        [pa.field(name, kind, nullable=False) for name, kind in present.items()]
        + [pa.field(name, kind) for name, kind in perhaps.items()]
    )


def _number_columns() -> list[str]:
    return [c for name in (*_CUES, *_JUDGED) for c in _COLUMNS.get(name, (name,))]


def _written(table: Any) -> bytes:
    _, pq = require_pyarrow()
    out = io.BytesIO()
    there = set(table.column_names)
    pq.write_table(
        table,
        out,
        row_group_size=PAIRS_A_GROUP if "x0" in there else None,
        compression="zstd",
        compression_level=3,
        # By significance: hardly a number comes twice, but their first bytes do.
        use_dictionary=False,
        use_byte_stream_split=[
            f"{c}.list.element" for c in _number_columns() if c in there
        ],
        write_page_checksum=True,
    )
    return out.getvalue()


# ---- to rows -------------------------------------------------------------------------


def _row(record: PairRecord) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(record, name) for name in _SUMMARY}
    row["model"] = _flat(record.model)
    row["cameras"] = None if record.cameras is None else _flat(np.stack(record.cameras))
    row |= _columns(record.matches)
    if record.matches is not None:
        row["match_count"] = len(record.matches)
    for name in _JUDGED:
        row |= _split(name, getattr(record, name))
    return row


def _flat(array: FloatArray | None) -> list[float] | None:
    return None if array is None else np.asarray(array, np.float64).ravel().tolist()


def _columns(matches: Matches | None) -> dict[str, Any]:
    """The columns of matches, None in each without them."""
    row: dict[str, Any] = dict.fromkeys(_SIZES)
    for name in _CUES:
        row |= _split(name, None if matches is None else getattr(matches, name))
    if matches is not None:
        sizes = (*matches.source_size, *matches.target_size)
        row |= zip(_SIZES, sizes, strict=True)
    return row


def _split(name: str, array: Array | None) -> dict[str, Array | None]:
    """The columns of an array of n rows."""
    columns = _COLUMNS.get(name, (name,))
    if array is None:
        return dict.fromkeys(columns)
    numbers = array.reshape(len(array), len(columns)).astype(np.float32)
    if name == "confidence":
        numbers = np.maximum(numbers, _SMALLEST)
    return {c: np.ascontiguousarray(numbers[:, k]) for k, c in enumerate(columns)}


# ---- from rows -----------------------------------------------------------------------


def _rows(
    file: IO[bytes],
    schema: Any,
    columns: list[str] | None = None,
    group: int | None = None,
) -> Iterator[Row]:
    """The rows of a file as dictionaries, lists of numbers as arrays."""
    pa, pq = require_pyarrow()
    # No reading ahead: pyarrow's threads would read `file`, which is Python's, and
    # one that still holds it when the interpreter ends aborts the process.
    parquet = pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
    if not parquet.schema_arrow.equals(schema):
        raise ValueError("its columns are not those of a store")
    groups = range(parquet.num_row_groups) if group is None else (group,)
    for k in groups:
        table = parquet.read_row_group(k, columns, use_threads=False)
        entries = {c: _entries(pa, table[c]) for c in table.column_names}
        for row in range(table.num_rows):
            yield {c: values[row] for c, values in entries.items()}


def _entries(pa: Any, column: Any) -> list[Any]:
    """The entries of a column; lists of numbers as arrays, not as Python's numbers."""
    kind = column.type
    if not pa.types.is_list(kind) or pa.types.is_string(kind.value_type):
        return column.to_pylist()
    parts = (entry.values for entry in column)
    return [p if p is None else p.to_numpy(zero_copy_only=False) for p in parts]


def _summary(row: Row) -> dict[str, Any]:
    """The fields of a summary; raises unless names, states and models can be."""
    summary: dict[str, Any] = {name: row[name] for name in _SUMMARY}
    check_name(row["image0"])
    check_name(row["image1"])
    as_choice("state", row["state"], PAIR_STATES)
    summary["reasons"] = tuple(row["reasons"])
    if row["cameras"] is not None:
        summary["cameras"] = tuple(row["cameras"].reshape(2, 3, 3))
    if row["kind"] is not None:
        as_choice("kind", row["kind"], MODEL_KINDS)
        if row["model"] is None or not np.isfinite(row["model"]).all():
            raise ValueError(f"a {row['kind']} must have its numbers")
        shape = (3, 4) if row["kind"] == "essential" else (3, 3)
        summary["model"] = row["model"].reshape(shape)
    return summary


def _record(row: Row) -> PairRecord:
    judged: dict[str, Any] = {name: _joined(name, row) for name in _JUDGED}
    matches = None if row["x0"] is None else _matches(row)
    for name, values in judged.items():
        if values is not None and (matches is None or len(values) != len(matches)):
            raise ValueError(f"{name} must be one number for each match")
    return PairRecord(**_summary(row), matches=matches, **judged)


def _matches(row: Row) -> Matches:
    cues: dict[str, Any] = {name: _joined(name, row) for name in _CUES}
    if cues["cell"] is not None:
        cues["cell"] = cues["cell"].reshape(-1, 2, 3)
    width0, height0, width1, height1 = (row[name] for name in _SIZES)
    cues |= {"source_size": (width0, height0), "target_size": (width1, height1)}
    return Matches(**cues)


def _joined(name: str, row: Row) -> FloatArray | None:
    """The array of n rows whose columns are in a row of the file, as float64."""
    columns = [row[c] for c in _COLUMNS.get(name, (name,))]
    if columns[0] is None:
        return None
    if len(columns) == 1:
        return np.asarray(columns[0], np.float64)
    return np.stack(columns, axis=1).astype(np.float64)


@contextmanager
def _whole(name: str) -> Iterator[None]:
    """Whatever a damaged file makes others raise becomes a sentence."""
    pa, _ = require_pyarrow()
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError) as error:
        raise FileError(
            f"{name} is not a readable part of a store: {in_short(error)}. Delete it "
            "and run the command again."
        ) from None


def require_pyarrow() -> tuple[Any, Any]:
    """Both modules of pyarrow, or a sentence that says how to get them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "store", "A store of pairs") from None
    return pyarrow, pyarrow.parquet

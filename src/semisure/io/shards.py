"""Pairs as rows of a Parquet file, matches as lists of float32: the one pyarrow user.

A column is named as in a CSV file of matches. A coordinate keeps 24 bits, so that it
errs by less than 0.0003 px in an image of 8,192 px. Models and probabilities stay
float64. The same pairs give the same bytes, with one version of pyarrow.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from types import ModuleType
from typing import IO, Any

import numpy as np

from semisure.errors import FileError, InputError, MissingExtraError, in_short
from semisure.io.footers import check_footer, sealed
from semisure.io.row_checks import check_judged, check_name, check_summary
from semisure.types import Array, FloatArray, Matches
from semisure.types.matches import COLUMN_NAMES
from semisure.types.pair_records import ImageRecord, PairRecord, PairSummary

PAIRS_A_GROUP = 64  # read together: some megabytes
MAX_GROUP_BYTES = 1 << 30
_LEVEL = 3  # of zstd
_TEXTS = ("image0", "image1", "digest0", "digest1", "state", "kind")
_SIZES = ("width0", "height0", "width1", "height1")
# Of matches, and of what is said about them.
_CUES = (
    *("source", "target", "confidence", "fine_std", "coarse_std"),
    *("side", "fine_window", "cell"),
)
_JUDGED = ("weight", "expected_px", "fine_scale")
_COLUMNS = {**COLUMN_NAMES, "fine_scale": ("fine_scale_x", "fine_scale_y")}
_LEAF = ".list.element"
# Columns in which hardly a number comes twice: their bytes are stored by significance,
# so that the first two of each number compress.
_NOISY = frozenset(
    column for name in (*_CUES[:5], *_JUDGED) for column in _COLUMNS.get(name, (name,))
)
_SMALLEST = float(np.finfo(np.float32).tiny)  # a confidence must not become 0

Row = Mapping[str, Any]


def as_stored(matches: Matches) -> Matches:
    """The matches as they come back from a file: what is computed from both is alike.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=9)
    >>> once = as_stored(matches)
    >>> 0 < np.abs(once.target - matches.target).max() < 1e-4
    np.True_
    """
    row: dict[str, Any] = {}
    for name in _CUES:
        row |= _split(name, getattr(matches, name))
    sizes = (*matches.source_size, *matches.target_size)
    return _matches(row | dict(zip(_SIZES, sizes, strict=True)))


def parquet_of(records: Sequence[PairRecord]) -> bytes:
    """The file that holds these pairs, in their order."""
    pa, _ = require_pyarrow()
    rows = [_row(record) for record in records]
    schema = _schema(pa)
    columns = [pa.array([row[f.name] for row in rows], f.type) for f in schema]
    return _written(pa.Table.from_arrays(columns, schema=schema))


def summaries_in(file: IO[bytes], name: str) -> Iterator[PairSummary]:
    """The pairs of a file without their matches."""
    for row in _rows(file, name, _summary_columns()):
        yield PairSummary(**_summary_fields(row, name))


def records_in(file: IO[bytes], name: str) -> Iterator[PairRecord]:
    """The pairs of a file, some at a time."""
    for row in _rows(file, name, None):
        yield _record(row, name)


def record_in(file: IO[bytes], name: str, row: int) -> PairRecord:
    """One pair of a file by its position."""
    group, within = divmod(row, PAIRS_A_GROUP)
    rows = _rows(file, name, None, group)
    return _record(next(entry for k, entry in enumerate(rows) if k == within), name)


def parquet_of_images(images: Sequence[ImageRecord]) -> bytes:
    """The table of a store's images."""
    pa, _ = require_pyarrow()
    names = [field.name for field in fields(ImageRecord)]
    columns = {name: [getattr(image, name) for image in images] for name in names}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return _written(table)


def images_in(file: IO[bytes], name: str) -> list[ImageRecord]:
    """The images of such a table."""
    try:
        images = [ImageRecord(**row) for row in _rows(file, name, None)]
        for image in images:
            check_name(image.name)
            numbers = image.width, image.height, image.bytes, image.modified_ns
            if not all(isinstance(number, int) for number in numbers):
                raise ValueError(f"{image.name} must have sizes and times")
            if not isinstance(image.sha256, str):
                raise ValueError(f"{image.name} must have a digest")
    except (TypeError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise _damaged(name, error) from None
    return images


def _written(table: Any) -> bytes:
    _, pq = require_pyarrow()
    out = io.BytesIO()
    split = [c for c in _leaves(table) if c.removesuffix(_LEAF) in _NOISY]
    pq.write_table(
        table,
        out,
        row_group_size=PAIRS_A_GROUP if "x0" in table.column_names else None,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=[c for c in _leaves(table) if c not in split],
        use_byte_stream_split=split,
        write_page_checksum=True,
    )
    return sealed(out.getvalue())


def _leaves(table: Any) -> list[str]:
    """The columns as Parquet calls them: lists by their elements."""
    return [
        f"{f.name}{_LEAF}" if str(f.type).startswith("list") else f.name
        for f in table.schema
    ]


def _schema(pa: ModuleType) -> Any:
    numbers = pa.list_(pa.float32())
    types = {
        **dict.fromkeys(_TEXTS, pa.string()),
        **dict.fromkeys(("match_count", *_SIZES), pa.int32()),
        **dict.fromkeys(("probability", "model_failure"), pa.float64()),
        **dict.fromkeys(("model", "cameras"), pa.list_(pa.float64())),
        "reasons": pa.list_(pa.string()),
        **{c: numbers for name in (*_CUES, *_JUDGED) for c in _columns_of(name)},
        "side": pa.list_(pa.int8()),
    }
    return pa.schema(list(types.items()))


def _columns_of(name: str) -> tuple[str, ...]:
    return _COLUMNS.get(name, (name,))


def _summary_columns() -> list[str]:
    return [field.name for field in fields(PairSummary)]


# ---- to rows -------------------------------------------------------------------------


def _row(record: PairRecord) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(record, name) for name in _summary_columns()}
    row["model"] = _flat(record.model)
    row["cameras"] = None if record.cameras is None else _flat(np.stack(record.cameras))
    matches = record.matches
    if matches is not None:
        sizes = (*matches.source_size, *matches.target_size)
        row |= zip(_SIZES, sizes, strict=True)
        row["match_count"] = len(matches)
    else:
        row |= dict.fromkeys(_SIZES)
    for name in _CUES:
        row |= _split(name, None if matches is None else getattr(matches, name))
    for name in _JUDGED:
        row |= _split(name, getattr(record, name))
    return row


def _flat(array: FloatArray | None) -> list[float] | None:
    return None if array is None else np.asarray(array, np.float64).ravel().tolist()


def _split(name: str, array: Array | None) -> dict[str, Array | None]:
    """The columns of an array of n rows."""
    columns = _columns_of(name)
    if array is None:
        return dict.fromkeys(columns)
    kind = np.int8 if name == "side" else np.float32
    numbers = array.reshape(len(array), len(columns)).astype(kind)
    if name == "confidence":
        numbers = np.maximum(numbers, np.float32(_SMALLEST))
    return {c: np.ascontiguousarray(numbers[:, k]) for k, c in enumerate(columns)}


# ---- from rows -----------------------------------------------------------------------


def _rows(
    file: IO[bytes], name: str, columns: list[str] | None, group: int | None = None
) -> Iterator[Row]:
    """The rows of a file as dictionaries, lists of numbers as arrays."""
    pa, pq = require_pyarrow()
    try:
        check_footer(file)
        # No reading ahead: pyarrow's threads would read `file`, which is Python's, and
        # one that still holds it when the interpreter ends aborts the process.
        parquet = pq.ParquetFile(
            file, page_checksum_verification=True, pre_buffer=False
        )
        groups = range(parquet.num_row_groups) if group is None else (group,)
        for k in groups:
            size = _unpacked(parquet.metadata.row_group(k))
            if size > MAX_GROUP_BYTES:
                raise ValueError(f"{size >> 20} MB would have to be read at once")
            table = parquet.read_row_group(k, columns, use_threads=False)
            read = {c: _listed(pa, table[c]) for c in table.column_names}
            for row in range(table.num_rows):
                yield {c: values[row] for c, values in read.items()}
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(name, error) from None


def _unpacked(group: Any) -> int:
    """Bytes that a group takes in memory: one number repeated takes few in a file."""
    numbers = sum(group.column(k).num_values for k in range(group.num_columns))
    return int(max(group.total_byte_size, 4 * numbers, 64 * group.num_rows))


def _listed(pa: ModuleType, column: Any) -> list[Any]:
    """The entries of a column; lists of numbers as arrays, not as Python's numbers."""
    whole = column.combine_chunks()
    kind = whole.type
    if not pa.types.is_list(kind) or pa.types.is_string(kind.value_type):
        return whole.to_pylist()
    ends = whole.offsets.to_numpy()
    numbers = whole.values.to_numpy(zero_copy_only=False)
    valid = whole.is_valid().to_numpy(zero_copy_only=False)
    parts = zip(ends[:-1], ends[1:], valid, strict=True)
    return [numbers[a:b] if there else None for a, b, there in parts]


def _summary_fields(row: Row, name: str) -> dict[str, Any]:
    try:
        known = {field: row[field] for field in _summary_columns()}
        model, cameras = known["model"], known["cameras"]
        known["model"] = None if model is None else model.reshape(3, -1)
        if cameras is not None:
            first, second = cameras.reshape(2, 3, 3)
            known["cameras"] = first, second
        known["reasons"] = tuple([] if known["reasons"] is None else known["reasons"])
        check_summary(known)
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise _damaged(name, error) from None
    return known


def _record(row: Row, name: str) -> PairRecord:
    try:
        judged: dict[str, Any] = {field: _joined(field, row) for field in _JUDGED}
        matches = None if row["x0"] is None else _matches(row)
        record = PairRecord(**_summary_fields(row, name), matches=matches, **judged)
        check_judged(record)
        return record
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, FileError):
            raise
        raise _damaged(name, error) from None


def _matches(row: Row) -> Matches:
    cues: dict[str, Any] = {field: _joined(field, row) for field in _CUES}
    if cues["cell"] is not None:
        cues["cell"] = cues["cell"].reshape(-1, 2, 3)
    width0, height0, width1, height1 = (row[name] for name in _SIZES)
    cues |= {"source_size": (width0, height0), "target_size": (width1, height1)}
    return Matches(**cues)


def _joined(name: str, row: Row) -> FloatArray | None:
    """The array of n rows whose columns are in a row of the file, as float64."""
    columns = [row[c] for c in _columns_of(name)]
    if columns[0] is None:
        return None
    if len(columns) == 1:
        return np.asarray(columns[0], np.float64)
    return np.stack(columns, axis=1).astype(np.float64)


def _damaged(name: str, error: Exception) -> FileError:
    return FileError(
        f"{name} is not a readable part of a store: {in_short(error)}. Delete it and "
        "run the command again."
    )


def require_pyarrow() -> tuple[Any, Any]:
    """Both modules of pyarrow, or a sentence that says how to get them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "store", "A store of pairs") from None
    return pyarrow, pyarrow.parquet

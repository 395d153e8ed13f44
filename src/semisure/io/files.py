"""Calibrations as JSON, matches as NPZ or CSV; no file is trusted."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from semisure import __about__
from semisure.errors import FileError, InputError, in_short
from semisure.io.atomic import appearing_whole, write_atomically, write_json
from semisure.law.mixture import STD_FLOOR_PX
from semisure.types import Array, Calibration, FloatArray, Matches, PairSpread
from semisure.types.calibration import require_calibration
from semisure.types.checks import as_path, did_you_mean, require_file
from semisure.types.matches import COLUMN_NAMES, columns_of, require_matches

if TYPE_CHECKING:  # fitting is no part of reading
    from semisure.law.fit_law import FitReport

FORMAT = "semisure-calibration"
SCHEMA_VERSION = 1

_OPTIONAL = ("side", "fine_window", "cell")
_REQUIRED = ("source", "target", "confidence", "fine_std", "coarse_std")
_SIZES = ("source_size", "target_size")
MATCH_ARRAYS = (*_REQUIRED, *_OPTIONAL, *_SIZES)  # in a file of matches
SIZE_COLUMNS = ("width0", "height0", "width1", "height1")
CSV_DIGITS = 9  # a hundred-thousandth of a pixel of any image; NPZ keeps all
MAX_BYTES = 384 << 20  # of all arrays of an NPZ file together
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def save_calibration(
    calibration: Calibration, path: str | Path, report: FitReport | None = None
) -> None:
    """Write a calibration, and the report of its fit, to a JSON file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "theta.json"
    >>> save_calibration(load_calibration("daisy"), file)
    >>> load_calibration(file) == load_calibration("daisy")
    True
    """
    require_calibration(calibration)
    write_json(path, calibration_document(calibration, report))


def calibration_document(
    calibration: Calibration, report: FitReport | None = None
) -> dict[str, Any]:
    """The content of a calibration file."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "semisure_version": __about__.__version__,
        "matcher": calibration.matcher,
        "resolution": calibration.resolution,
        "law": calibration.law,
        "parameters": {name: getattr(calibration, name) for name in _PARAMETERS},
        "model_error": calibration.model_error,
        "pairs": None if calibration.pairs is None else asdict(calibration.pairs),
        "paper_symbols": calibration.paper_symbols(),
        "std_floor_px": STD_FLOOR_PX,
        "provenance": dict(calibration.provenance),
        "fit": None if report is None else _without_nan(asdict(report)),
    }


_PARAMETERS = (
    "coarse_var_gain",
    "fine_var_gain",
    "spread_slope",
    "doubt_slope",
    "intercept",
    "location",
)


def _without_nan(value: Any) -> Any:
    """The value with null in place of NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


SHIPPED = Path(__file__).parents[1] / "data" / "calibrations"


def is_shipped(name: str) -> bool:
    """True if a calibration of that name comes with the package."""
    return (SHIPPED / f"{name}.json").exists()


def load_calibration(path: str | Path) -> Calibration:
    """The calibration in a JSON file, or the shipped one of that name.

    >>> load_calibration("daisy").matcher
    'daisy'
    """
    path = as_path(path)
    shipped = SHIPPED / f"{path.name}.json"
    if path.name == str(path) and not path.is_file() and shipped.exists():
        path = shipped
    if not path.exists():
        raise FileError(_no_calibration(path))
    require_file(path, "calibration")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(
            f"{path} is not a readable calibration: {in_short(error)}. Fit it again."
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError(
            f"{path} is not a semisure calibration: it lacks "
            f'"format": "{FORMAT}". Make one with `semisure fit`.'
        )
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise FileError(
            f"{path} has schema version {version}, but this semisure "
            f"{__about__.__version__} reads {SCHEMA_VERSION}. Upgrade semisure."
        )
    return calibration_from(document, path)


def _no_calibration(path: Path) -> str:
    if path.suffix or path.name != str(path):
        return f"There is no calibration file {path}."
    names = sorted(file.stem for file in SHIPPED.glob("*.json"))
    return (
        f"There is no calibration {path}: neither a file nor one that ships with "
        f"semisure ({', '.join(names)}).{did_you_mean(str(path), names)} Without one, "
        "`semisure match` makes it on first use; `semisure calibrate` makes a better "
        "one from your photos."
    )


def calibration_from(document: Mapping[str, Any], path: Path) -> Calibration:
    """The calibration of a file with this content."""
    try:
        parameters = document["parameters"]
        resolution, pairs = document.get("resolution"), document.get("pairs")
        return Calibration(
            **{name: parameters[name] for name in _PARAMETERS},
            model_error=document.get("model_error"),
            pairs=None if pairs is None else PairSpread(**pairs),
            law=document["law"],
            matcher=str(document["matcher"]),
            resolution=None if resolution is None else tuple(resolution),
            provenance=dict(document.get("provenance") or {}),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        missing = f"the entry {error} is missing"
        reason = missing if isinstance(error, KeyError) else in_short(error)
        raise FileError(f"{path} is damaged: {reason}. Fit it again.") from None


def arrays_of(matches: Matches) -> dict[str, Array]:
    """The content of an NPZ file of matches; `matches_from` reads it."""
    fields = {name: getattr(matches, name) for name in MATCH_ARRAYS}
    return {k: np.asarray(value) for k, value in fields.items() if value is not None}


def save_matches(matches: Matches, path: str | Path, **extra: FloatArray) -> None:
    """Write matches, and further arrays beside them, to an NPZ or CSV file.

    >>> import tempfile
    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, residual = SyntheticMatcher().match(np.eye(3), count=20)
    >>> file = Path(tempfile.mkdtemp()) / "pair.npz"
    >>> save_matches(matches, file, residual=residual)
    >>> len(load_matches(file))
    20
    """
    require_matches(matches)
    path = as_path(path)
    if path.suffix == ".npz":
        write_arrays(path, {**arrays_of(matches), **extra})
    elif path.suffix == ".csv":
        write_atomically(path, csv_bytes(matches, **extra))
    else:
        raise FileError(f"Matches are written to .npz or .csv, not to {path}.")


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Arrays as a compressed NPZ file."""
    # NumPy's stubs take the second argument for `allow_pickle`.
    save: Callable[..., None] = np.savez_compressed
    with appearing_whole(path) as part, part.open("wb") as file:
        save(file, **arrays)


def csv_bytes(matches: Matches, **extra: FloatArray) -> bytes:
    """The content of a CSV file of matches."""
    arrays = {k: v for k, v in arrays_of(matches).items() if k not in _SIZES}
    columns = columns_of({**arrays, **extra})
    sizes = (*matches.source_size, *matches.target_size)
    for name, size in zip(SIZE_COLUMNS, sizes, strict=True):
        columns[name] = np.full(len(matches), size)
    file = io.BytesIO()
    file.write((",".join(columns) + "\n").encode())
    table = np.stack([*columns.values()], axis=1)
    np.savetxt(file, table, delimiter=",", fmt=f"%.{CSV_DIGITS}g")
    return file.getvalue()


def load_arrays(
    path: str | Path, names: Collection[str] | None = None
) -> dict[str, Array]:
    """The arrays of an NPZ or CSV file of matches: all, or those of `names`."""
    path = as_path(path)
    if path.suffix not in (".npz", ".csv"):
        raise FileError(f"Matches are read from .npz or .csv, not from {path}.")
    require_file(path)
    try:
        return read_npz(path, names) if path.suffix == ".npz" else _read_csv(path)
    except Exception as error:  # noqa: BLE001, whatever a damaged file leads to
        raise FileError(f"{path} cannot be read: {in_short(error)}.") from None


def read_npz(
    path: Path,
    names: Collection[str] | None = None,
    *,
    unpickle: Callable[[bytes], Any] | None = None,
) -> dict[str, Any]:
    """The arrays of an NPZ file, or those of the given `names` that it has.

    Pickled arrays raise, unless `unpickle` is given to read them. A damaged file may
    raise any exception.
    """
    arrays, budget = {}, MAX_BYTES
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename or (names is not None and name not in names):
                continue
            budget -= member.file_size
            if budget < 0:
                raise ValueError(
                    f"its arrays take more than {MAX_BYTES >> 20} MB once unpacked"
                )
            # Whole, so that its checksum is compared.
            arrays[name] = _array(archive.read(member), unpickle)
    return arrays


def _array(content: bytes, unpickle: Callable[[bytes], Any] | None) -> Any:
    file = io.BytesIO(content)
    if unpickle is not None:
        *_, dtype = _NPY_HEADERS[np.lib.format.read_magic(file)](file)
        if dtype.hasobject:
            return unpickle(file.read())
        file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _read_csv(path: Path) -> dict[str, Array]:
    with path.open(encoding="utf-8") as file:
        header = [name.strip() for name in file.readline().split(",")]
        lines = [line for line in file if line.strip()]
    empty = np.zeros((0, len(header)))
    rows = np.loadtxt(lines, delimiter=",", ndmin=2) if lines else empty
    if rows.shape[1] != len(header):
        raise ValueError(
            f"it must have one number per column, but has {len(header)} names and "
            f"{rows.shape[1]} numbers in a row"
        )
    columns = dict(zip(header, rows.T, strict=True))
    arrays = {}
    for name, parts in COLUMN_NAMES.items():
        if all(part in columns for part in parts):
            stacked = np.stack([columns[part] for part in parts], axis=1)
            arrays[name] = stacked if len(parts) > 1 else stacked[:, 0]
    if "cell" in arrays:
        arrays["cell"] = arrays["cell"].reshape(-1, 2, 3)
    sizes = SIZE_COLUMNS[:2], SIZE_COLUMNS[2:]
    for name, parts in zip(_SIZES, sizes, strict=True):
        if len(rows) and all(part in columns for part in parts):
            arrays[name] = np.array([columns[part][0] for part in parts])
    return arrays


def load_matches(path: str | Path, *, size: tuple[int, int] | None = None) -> Matches:
    r"""The matches in an NPZ or CSV file; `size` replaces missing image sizes.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pair.csv"
    >>> names = "x0,y0,x1,y1,confidence,fine_std_x,fine_std_y,coarse_std_x,coarse_std_y"
    >>> _ = file.write_text(f"{names}\n10,20,11,21,0.9,1,1,20,20\n")
    >>> load_matches(file, size=(640, 480)).target.tolist()
    [[11.0, 21.0]]
    """
    return matches_from(load_arrays(path, MATCH_ARRAYS), path, size)


def matches_from(
    arrays: dict[str, Array], path: str | Path, size: tuple[int, int] | None = None
) -> Matches:
    """Matches from a file's arrays; an error names those that are missing."""
    missing = [name for name in _REQUIRED if name not in arrays]
    if missing:
        columns = [", ".join(COLUMN_NAMES[name]) for name in missing]
        named = columns if Path(path).suffix == ".csv" else missing
        raise FileError(f"{path} lacks {'; '.join(named)}. See `semisure fit --help`.")
    sizes: dict[str, Any] = {name: arrays.get(name, size) for name in _SIZES}
    if any(value is None for value in sizes.values()):
        raise FileError(
            f"{path} does not hold the image sizes: add source_size and target_size "
            "(CSV: width0, height0, width1, height1), or give --size."
        )
    fields: dict[str, Any] = {name: arrays[name] for name in _REQUIRED}
    fields |= {name: arrays[name] for name in _OPTIONAL if name in arrays}
    try:
        return Matches(**fields, **sizes)
    except InputError as error:
        raise FileError(f"{path}: {error}") from None

"""A checksum of the one part of a Parquet file that has none: its footer.

Pages have checksums, but the footer, which says where they are and what they mean, has
not: a flipped bit there may make other numbers of sound pages. So its SHA-256 is put
between the last page and the footer, where no reader looks: readers go by the offsets
that the footer states.
"""

from __future__ import annotations

import hashlib
from typing import IO

_MARK = b"sha256 of the footer: "
_SEAL_BYTES = len(_MARK) + 32
_TAIL_BYTES = 8  # length of the footer, PAR1


def sealed(content: bytes) -> bytes:
    """A Parquet file with the checksum of its footer."""
    start = _footer_at(content[-_TAIL_BYTES:], len(content))
    return content[:start] + _seal(content[start:]) + content[start:]


def check_footer(file: IO[bytes]) -> None:
    """Raise ValueError if the footer is not as it was sealed.

    A file without a seal is another program's, and is read as it is.
    """
    size = file.seek(0, 2)
    file.seek(max(size - _TAIL_BYTES, 0))
    start = _footer_at(file.read(), size)
    if start >= _SEAL_BYTES:
        file.seek(start - _SEAL_BYTES)
        seal = file.read(_SEAL_BYTES)
        if seal.startswith(_MARK) and seal != _seal(file.read()):
            raise ValueError("its footer is not as it was written")
    file.seek(0)


def _footer_at(tail: bytes, size: int) -> int:
    return size - _TAIL_BYTES - int.from_bytes(tail[:4], "little")


def _seal(footer: bytes) -> bytes:
    return _MARK + hashlib.sha256(footer).digest()

"""What a store holds for two images: matches, a model, or why there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Literal, get_args

from semisure.errors import InputError
from semisure.types.arrays import FloatArray, Matrix3, PerAxis, PerMatch
from semisure.types.matches import Matches

ModelKind = Literal["homography", "fundamental", "essential"]
# `matched`: no model was fitted. `failed`: there are no matches either.
PairState = Literal["sound", "weak", "unrelated", "matched", "failed"]
MODEL_KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
PAIR_STATES: tuple[PairState, ...] = get_args(PairState)

Names = tuple[str, str]
Size = tuple[int, int]  # width, height


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PairSummary:
    """A pair without its matches.

    `model` is `H_01`, `F_01` of pixels, or the pose `P_01`, as `kind` says.

    >>> lost = PairSummary(
    ...     image0="a.jpg", image1="b.jpg", state="failed", reasons=("no image b.jpg",))
    >>> lost.names, lost.usable
    (('a.jpg', 'b.jpg'), False)
    """

    image0: str  # names, as the store's table of images has them
    image1: str
    state: PairState
    digest0: str = ""  # of the image files, the first digits; "" where unknown
    digest1: str = ""
    match_count: int = 0
    probability: float = 0.0  # that the model is right
    model_failure: float = 1.0  # chance that the model is an accident
    kind: ModelKind | None = None
    model: FloatArray | None = None
    cameras: tuple[Matrix3, Matrix3] | None = None  # intrinsics behind `P_01`
    reasons: tuple[str, ...] = ()  # why the pair is weak, unrelated or failed

    @property
    def names(self) -> Names:
        return self.image0, self.image1

    @property
    def usable(self) -> bool:
        """True where there is a model that may be right."""
        return self.state in ("sound", "weak")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PairRecord(PairSummary):
    """A pair with its matches and their errors.

    `matches` are raw, as the matcher gave them. The rest is None where there is no
    model.
    """

    matches: Matches | None = None  # None where the pair failed
    weight: PerMatch | None = None  # behind the model, 0 to 1
    expected_px: PerMatch | None = None  # expected error
    fine_scale: PerAxis | None = None  # px, where the coarse cell is right

    def summary(self) -> PairSummary:
        """The pair without its matches."""
        names = [field.name for field in fields(PairSummary)]
        return PairSummary(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord:
    """An image of a store."""

    name: str  # its path below the folder of images, with /
    width: int  # px, upright
    height: int
    sha256: str  # of the file
    bytes: int  # of the file
    modified_ns: int  # when the file was last changed, as its file system says

    @property
    def size(self) -> Size:
        return self.width, self.height

    @property
    def digest(self) -> str:
        """The first digits of `sha256`, as pairs have them."""
        return self.sha256[:16]


def check_name(name: str) -> None:
    """Raise unless tables, lists and databases can hold an image's name.

    >>> check_name("query/night 1.jpg")
    """
    # A control character would begin a line or end a string.
    if not name or re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", name):
        raise InputError(
            "An image must have a name, of UTF-8 text without line breaks and other "
            f"control characters, but has {name[:80]!r}. Rename the image."
        )

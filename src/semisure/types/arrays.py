"""Array types whose names give the shape.

To a type checker all of them are arrays of numbers; ``tests/test_shapes.py`` checks the
shape, the second half of the annotation, at every call of the numpy rooms. Letters
stand for counts: ``n`` matches, ``k`` parameters or anything else.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.floating[Any]]  # float64 past the doors, any shape
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]

PerMatch: TypeAlias = Annotated[FloatArray, "n"]  # one number a match
PerAxis: TypeAlias = Annotated[FloatArray, "n 2"]  # one a match and axis, x then y
Columns: TypeAlias = Annotated[FloatArray, "2 n"]  # the same, all x before all y
Points: TypeAlias = Annotated[FloatArray, "n 2"]  # px
Points3: TypeAlias = Annotated[FloatArray, "n 3"]  # world points or rays
Mask: TypeAlias = Annotated[BoolArray, "n"]
Labels: TypeAlias = Annotated[IntArray, "n"]
Vector: TypeAlias = Annotated[FloatArray, "k"]
Vector3: TypeAlias = Annotated[FloatArray, "3"]
Matrix: TypeAlias = Annotated[FloatArray, "k k"]  # square
Matrix3: TypeAlias = Annotated[FloatArray, "3 3"]  # a homography, rotation, K, E or F
Pose: TypeAlias = Annotated[FloatArray, "3 4"]  # [R | t]
CellMaps: TypeAlias = Annotated[FloatArray, "n 2 3"]  # [A | c] of each match
Jacobian: TypeAlias = Annotated[FloatArray, "2 k n"]  # ∂ pixel / ∂ parameters

Index: TypeAlias = slice | BoolArray | IntArray

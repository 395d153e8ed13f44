"""RoMa v2's uncertainty for `semisure bench native` (supplement B.5).

    pip install romav2
    python examples/native_roma_v2.py hpatches-sequences-release roma
    echo 'native = { "RoMa v2" = "roma" }' > native.toml
    semisure bench native --data hpatches-sequences-release --matcher eloftr \
        --config native.toml -o results

Images are given at 1184 × 896, and 8,500 of the dense matches of a pair are drawn at
random, as in the paper. RoMa v2 predicts a precision matrix for each pixel of image 0;
the uncertainty is the trace of its inverse in px² of image 1. Which of the network's
settings the paper took it does not say: its own default is used.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from romav2 import RoMaV2

from semisure.bench.studies.native import export_native


class RoMa:
    """The network as a function of two RGB images, (h, w, 3) uint8."""

    def __init__(self) -> None:
        torch.set_float32_matmul_precision("highest")  # which the network insists on
        self.model = RoMaV2()

    def __call__(
        self, image0: np.ndarray, image1: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Points of both images, px, and the variance of each in image 1, px²."""
        predicted = self.model.match(image0, image1)
        warp = _array(predicted["warp_AB"])  # (rows, columns, 2), from −1 to 1
        precision = _array(predicted["precision_AB"])  # (rows, columns, 2, 2)
        seen = np.array(warp.shape[1::-1])  # columns, rows of the network's own grid
        size0, size1 = (np.array(image.shape[1::-1]) for image in (image0, image1))
        x, y = np.meshgrid(*(np.arange(n) for n in seen))
        source = (np.stack([x, y], axis=-1) + 0.5) / seen * size0 - 0.5
        target = (warp + 1.0) / 2.0 * size1 - 0.5
        variance = variances(precision, size1 / seen)
        return source.reshape(-1, 2), target.reshape(-1, 2), variance.ravel()


def variances(precision: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The trace of the inverse of 2 × 2 matrices, after `scale` along x and y.

    Where a matrix has no inverse, or none that is a covariance, the largest there is.
    """
    (a, b), c = precision[..., [0, 1], [0, 1]].transpose(2, 0, 1), precision[..., 0, 1]
    determinant = a * b - c**2
    sound = (determinant > 0) & (a > 0)
    trace = (b * scale[0] ** 2 + a * scale[1] ** 2) / np.where(sound, determinant, 1.0)
    return np.where(sound, trace, trace[sound].max(initial=0.0))


def _array(batch: Any) -> np.ndarray:
    return batch[0].detach().cpu().double().numpy()


if __name__ == "__main__":
    export_native(sys.argv[1], sys.argv[2], RoMa())

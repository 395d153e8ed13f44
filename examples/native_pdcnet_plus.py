"""PDC-Net+'s uncertainty for `semisure bench native` (supplement B.5).

    git clone https://github.com/PruneTruong/DenseMatching  # and its trained models
    PYTHONPATH=DenseMatching python examples/native_pdcnet_plus.py \
        hpatches-sequences-release pdcnet DenseMatching/pre_trained_models
    echo 'native = { "PDC-Net+" = "pdcnet" }' > native.toml
    semisure bench native --data hpatches-sequences-release --matcher eloftr \
        --config native.toml -o results

Images are given at 1184 × 896, and 8,500 of the dense matches of a pair are drawn at
random, as in the paper. The uncertainty is 1 − P_R, the network's probability that a
match is within 1 px. It is asked directly, without the multi-stage alignment, of which
the paper does not speak.
"""

from __future__ import annotations

import sys
from argparse import Namespace

import numpy as np
import torch
from model_selection import select_model  # of DenseMatching

from semisure.bench.studies.native import export_native

GLOBAL_STEPS, LOCAL_STEPS = 3, 7  # of the correlation's optimiser: its authors' values
INFERENCE = Namespace(
    network_type="PDCNet_plus",
    confidence_map_R=1.0,
    multi_stage_type="direct",
    ransac_thresh=1.0,
    mask_type="proba_interval_1_above_5",
    homography_visibility_mask=True,
    scaling_factors=[0.5, 0.6, 0.88, 1, 1.33, 1.66, 2],
    compute_cyclic_consistency_error=False,
)


class PDCNet:
    """The network as a function of two RGB images, (h, w, 3) uint8."""

    def __init__(self, weights: str) -> None:
        self.network, _ = select_model(
            "PDCNet_plus",
            "megadepth",
            INFERENCE,
            GLOBAL_STEPS,
            LOCAL_STEPS,
            path_to_pre_trained_models=weights,
        )

    def __call__(
        self, image0: np.ndarray, image1: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Points of both images, px, and 1 − P_R.

        The network's flow leads from its target to its source image, so that image 0 is
        the target.
        """
        tensors = (torch.from_numpy(i).permute(2, 0, 1)[None] for i in (image1, image0))
        with torch.no_grad():
            flow, about = self.network.estimate_flow_and_confidence_map(
                *tensors, mode="channel_first"
            )
        moved = flow[0].permute(1, 2, 0).cpu().double().numpy()
        probability = about["p_r"].squeeze().cpu().double().numpy()
        x, y = np.meshgrid(*(np.arange(n) for n in image0.shape[1::-1]))
        source = np.stack([x, y], axis=-1).astype(np.float64)
        target = source + moved
        return source.reshape(-1, 2), target.reshape(-1, 2), 1.0 - probability.ravel()


if __name__ == "__main__":
    export_native(sys.argv[1], sys.argv[2], PDCNet(sys.argv[3]))

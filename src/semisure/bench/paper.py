"""The paper's own numbers, each with the table or figure it was copied from.

AUC in percent; ``None`` stands where the paper has no number.
"""

from __future__ import annotations

# Our names of matchers, estimators, weights and laws, as the paper calls them.
MATCHERS = {
    "loftr": "LoFTR",
    "gim-loftr": "GIM-LoFTR",
    "eloftr": "EfficientLoFTR",
    "comatch": "CoMatch",
    "edm": "EDM",
    "xfeat-star-raw": "XFeat*",
}
ESTIMATORS = {
    "ransac": "RANSAC",
    "lo-ransac": "LO-RANSAC",
    "prosac": "PROSAC",
    "gc-ransac": "GC-RANSAC",
    "magsac++": "MAGSAC++",
}
LAWS = {
    "fine_only": "Fine only",
    "gaussian": "Gaussian mixture",
    "uncalibrated": "LMM, w/o calibration",
    "no_confidence_gate": "LMM, w/o conf. gate",
    "hard_gate": "LMM, hard gate",
    "mixture": "Ours",
}

Row = tuple[float, ...]

HPATCHES_PAIRS = 540  # its 108 sequences

# Tab. 1 (tab:homography_hpatches_mtv): RANSAC, base and with CoRe.
HPATCHES: dict[str, tuple[Row, Row]] = {  # AUC at 1, 3, 5, 10 px, 1280 × 960
    "loftr": ((21.37, 49.17, 61.40, 75.18), (28.80, 58.72, 70.19, 81.54)),
    "gim-loftr": ((24.82, 50.87, 62.23, 76.53), (29.87, 59.47, 71.11, 82.87)),
    "eloftr": ((29.14, 52.59, 64.17, 77.30), (32.68, 60.43, 71.24, 82.45)),
    "comatch": ((27.47, 52.35, 64.00, 77.22), (32.40, 60.26, 71.27, 82.67)),
    "edm": ((24.39, 50.25, 62.07, 76.01), (29.45, 58.15, 69.80, 81.56)),
    "xfeat-star-raw": ((0.23, 22.30, 40.19, 62.18), (0.33, 25.43, 47.38, 69.51)),
}
MTV: dict[str, tuple[Row, Row]] = {  # AUC at 10, 30, 50, 100 px, 960 × 640
    "loftr": ((1.08, 4.77, 7.05, 10.01), (1.83, 6.40, 8.65, 11.65)),
    "gim-loftr": ((0.44, 3.63, 6.43, 11.41), (1.31, 6.27, 9.85, 15.24)),
    "eloftr": ((1.10, 4.67, 7.04, 10.43), (1.78, 6.11, 8.63, 11.93)),
    "comatch": ((0.96, 4.31, 6.54, 9.44), (1.65, 5.47, 7.63, 10.43)),
    "edm": ((1.32, 5.87, 8.82, 13.10), (2.23, 7.49, 10.80, 15.17)),
    "xfeat-star-raw": ((0.46, 2.39, 3.67, 5.83), (0.91, 3.77, 5.39, 7.86)),
}

# Tab. 4 (tab:homography_estimators): EfficientLoFTR on HPatches, 1, 3, 5, 10 px.
BY_ESTIMATOR: dict[str, tuple[Row, Row]] = {
    "ransac": ((29.14, 52.59, 64.17, 77.30), (32.68, 60.43, 71.24, 82.45)),
    "lo-ransac": ((33.89, 58.82, 69.85, 81.30), (32.73, 60.69, 71.56, 82.77)),
    "prosac": ((33.76, 57.82, 67.98, 79.41), (32.78, 60.46, 71.11, 82.09)),
    "gc-ransac": ((33.99, 59.08, 69.97, 81.45), (32.85, 60.86, 71.80, 82.89)),
    "magsac++": ((32.39, 60.24, 71.34, 82.46), (32.69, 61.03, 71.97, 82.86)),
}

# Tab. 3 (tab:ablation_refit): EfficientLoFTR, RANSAC, HPatches, 1, 3, 5, 10, 30 px.
BY_WEIGHT: dict[str, Row] = {
    "base": (29.14, 52.59, 64.17, 77.30, 89.27),
    "uniform": (19.36, 43.85, 54.46, 66.19, 78.86),
    "binary": (33.11, 56.87, 67.50, 79.55, 90.20),
    "huber": (32.80, 59.41, 69.93, 81.33, 90.72),
    "laplace-laplace": (34.66, 59.20, 69.56, 81.06, 90.89),
    "confidence": (25.07, 49.04, 59.22, 70.17, 81.35),
    "fine-std": (33.65, 59.47, 70.06, 81.60, 91.08),
    "core": (32.85, 60.50, 71.25, 82.44, 91.32),
}

# Tab. 5 (tab:ablation_calibration): EfficientLoFTR on held-out MegaDepth; NLL per axis
# of all matches, of those that err by < 8, 8-64, > 64 px, then ECE and Spearman's rho.
BY_LAW: dict[str, Row] = {
    "fine_only": (2.897, 2.808, 4.373, 11.749, 7.756, 0.240),
    "gaussian": (1.665, 1.516, 6.092, 12.158, 4.191, 0.348),
    "uncalibrated": (1.962, 1.874, 4.762, 7.748, 2.530, 0.368),
    "no_confidence_gate": (1.554, 1.440, 5.724, 7.914, 1.575, 0.355),
    "hard_gate": (1.724, 1.552, 7.300, 13.100, 1.579, 0.347),
    "mixture": (1.546, 1.437, 5.532, 7.694, 1.612, 0.360),
}

# Tab. of the supplement (tab:initial_geometry_quality): EfficientLoFTR, RANSAC,
# HPatches, by the corner error of the start; pairs, median reduction in px, share of
# pairs improved in percent, median change in inliers.
BY_INITIAL: dict[str, Row] = {
    "<1": (261, -0.00, 47.9, 5),
    "1-3": (144, 0.42, 85.4, 78),
    "3-10": (96, 1.65, 87.5, 88.5),
    "10-30": (18, 4.26, 94.4, 39),
    "30-100": (6, 6.61, 66.7, 33),
    "100-300": (3, 57.7, 100.0, 28),
    ">=300": (12, 735.6, 58.3, 0),
}

# Supplement, fig:posterior_roc_pr: EfficientLoFTR on HPatches.
POSTERIOR_AUROC = 0.760
POSTERIOR_AUPRC = 0.951

# Tab. 2 (tab:visual_localization): Aachen v1.1, top 50 of NetVLAD, PnP in RANSAC; share
# of queries within 0.25 m 2°, 0.5 m 5°, 5 m 10° by day, base and CoRe, then by night.
AACHEN_QUERIES = {"day": 824, "night": 191}
AACHEN_SIZE = (1180, 896)  # of both images
AACHEN_RETRIEVED = 50  # images for each query, by NetVLAD
AACHEN: dict[str, dict[str, tuple[Row, Row]]] = {
    "loftr": {
        "day": ((85.3, 91.3, 94.5), (86.9, 92.0, 95.1)),
        "night": ((65.4, 83.2, 91.6), (69.1, 86.9, 92.1)),
    },
    "gim-loftr": {
        "day": ((86.9, 92.8, 97.0), (87.9, 93.4, 97.1)),
        "night": ((68.6, 80.1, 89.0), (67.0, 81.2, 90.1)),
    },
    "eloftr": {
        "day": ((85.4, 91.3, 94.9), (86.7, 92.6, 95.0)),
        "night": ((73.3, 84.3, 92.7), (72.8, 85.3, 92.7)),
    },
    "comatch": {
        "day": ((85.2, 91.4, 95.1), (85.1, 91.1, 95.5)),
        "night": ((66.5, 85.9, 94.2), (70.2, 87.4, 94.2)),
    },
    "edm": {
        "day": ((87.3, 93.1, 96.8), (88.0, 93.2, 97.0)),
        "night": ((70.2, 89.5, 97.9), (73.3, 90.6, 97.9)),
    },
    "xfeat-star-raw": {
        "day": ((63.2, 70.3, 77.8), (67.1, 74.0, 79.6)),
        "night": ((23.6, 34.0, 45.5), (28.8, 38.2, 49.7)),
    },
}

# Tab. of the supplement (tab:relative_pose): EfficientLoFTR, as all of the supplement
# unless it says otherwise, on MegaDepth-1500, pose AUC at 1, 3, 5, 10°; no estimator is
# named. The last two know depth and baseline.
RELATIVE_PAIRS = 1500
RELATIVE: dict[str, Row] = {
    "base": (8.06, 28.52, 41.81, 60.42),
    "core": (8.91, 21.32, 28.51, 38.98),
    "depth-huber": (12.14, 28.87, 38.58, 52.48),
    "depth-core": (26.42, 45.94, 54.24, 64.75),
}

# Supplement, calibration data quantity: sizes tried, and Powell's time on 200 pairs.
QUANTITIES = (2, 5, 10, 20, 50, 200, 500, 1000)
POWELL_SECONDS_200_PAIRS = 67.2

# Sec. runtime: cues and refit together add this, ms, on an RTX A5000.
OVERHEAD_MS = (11.4, 34.6)

# Supplement, tab:native_uncertainty: HPatches at 1184 × 896; AUROC (%) of large errors
# and their share (%), at 8, 32, 64, 128 px.
NATIVE_SIZE = (1184, 896)
NATIVE_PX = (8, 32, 64, 128)
NATIVE: dict[str, tuple[Row, Row]] = {
    "PDC-Net+": ((89.73, 93.54, 94.19, 95.13), (9.58, 5.52, 4.21, 2.77)),
    "RoMa v2": ((95.82, 96.60, 96.49, 96.24), (8.52, 6.18, 5.43, 4.50)),
    "EfficientLoFTR": ((88.64, 95.73, 96.87, 97.88), (2.70, 0.51, 0.32, 0.20)),
}
NATIVE_SAMPLE = 8500  # of a dense matcher's matches of a pair

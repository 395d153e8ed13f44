"""Calibration without a ground-truth data set, and its test on what was held out."""

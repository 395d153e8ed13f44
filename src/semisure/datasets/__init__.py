"""Data sets on disk: a module for each layout, which yields its pairs.

:mod:`semisure.datasets.layouts` tells which layout a folder has.
"""

"""Poses of queries in a map, and maps from many pairs: hloc's and COLMAP's files."""

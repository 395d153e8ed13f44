"""Reconstructions as other programs keep them, and 2D–3D matches from them."""

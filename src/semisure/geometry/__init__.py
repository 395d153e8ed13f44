"""Geometric models: projection, residuals, weighted fits."""

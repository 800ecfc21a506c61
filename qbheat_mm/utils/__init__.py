"""Utilities for all other modules of the package."""

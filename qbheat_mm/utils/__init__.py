"""Utilities for the whole package."""

"""Utilities that know neither configs nor models."""

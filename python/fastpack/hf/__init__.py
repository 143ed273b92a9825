"""Packed rows for the libraries of Hugging Face: data sets, and the settings that keep documents apart."""

from __future__ import annotations

from fastpack.hf.loading import load

__all__ = ["load"]

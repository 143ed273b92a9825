"""Packed rows for the libraries of Hugging Face: data sets, and the settings that keep documents apart."""

from __future__ import annotations

from fastpack.hf.loading import load
from fastpack.hf.packing import pack_dataset
from fastpack.hf.settings import sft_config

__all__ = ["load", "pack_dataset", "sft_config"]

"""The public functions: signature, overloads and docstring of each.

What an option decides is said in `fastpack/options/`, and a test compares the signatures with it.
"""

from __future__ import annotations

from fastpack.api.calls.pack_dir import pack_dir
from fastpack.api.calls.pack_files import pack_files
from fastpack.api.calls.pack_records import pack_records
from fastpack.api.calls.pack_table import pack_table
from fastpack.api.calls.plan import plan
from fastpack.api.calls.repack import repack
from fastpack.api.calls.scan import scan
from fastpack.api.calls.stream import stream

__all__ = ["pack_dir", "pack_files", "pack_records", "pack_table", "plan", "repack", "scan", "stream"]

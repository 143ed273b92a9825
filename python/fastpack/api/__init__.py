"""The public functions: their signatures, defaults and docs, by what they pack."""

from fastpack.api.files import pack_dir, pack_files
from fastpack.api.memory import pack_records, pack_table
from fastpack.api.planning import plan, scan
from fastpack.api.repacking import repack
from fastpack.api.streaming import stream

__all__ = ["pack_dir", "pack_files", "pack_records", "pack_table", "plan", "repack", "scan", "stream"]

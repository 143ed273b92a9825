"""The public functions, and their work."""

from fastpack.api.calls import pack_dir, pack_files, pack_records, pack_table, plan, repack, scan, stream

__all__ = ["pack_dir", "pack_files", "pack_records", "pack_table", "plan", "repack", "scan", "stream"]

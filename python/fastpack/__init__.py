"""Conversations in, packed Arrow out: chat template, tokens, masks and packing in one call.

>>> import fastpack
>>> table = fastpack.pack_files("examples/chat.jsonl", "examples/tokenizer", max_length=512)
>>> table.column_names
['input_ids', 'labels', 'position_ids', 'seq_lengths']

Importing this package loads nothing else; a name loads what it needs when it is first used.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` alone would take half of the time that this import may take
if TYPE_CHECKING:
    from fastpack._fastpack import PackStream, Plan, __version__
    from fastpack._scan import ScanReport
    from fastpack._types import Progress
    from fastpack.api import pack_dir, pack_files, pack_records, pack_table, plan, repack, scan, stream
    from fastpack.errors import (
        AccessError,
        FastpackError,
        InputNotFoundError,
        InternalError,
        LedgerError,
        LossError,
        OptionError,
        OptionTypeError,
        OutputError,
        RecordError,
        StorageError,
        TemplateError,
        TokenizerError,
        VerificationError,
    )
    from fastpack.report import Report
    from fastpack.tokenizer import Tokenizer

_HOMES = {
    "fastpack._fastpack": ("PackStream", "Plan", "__version__"),
    "fastpack._scan": ("ScanReport",),
    "fastpack._types": ("Progress",),
    "fastpack.api": (
        "pack_dir",
        "pack_files",
        "pack_records",
        "pack_table",
        "plan",
        "repack",
        "scan",
        "stream",
    ),
    "fastpack.errors": (
        "AccessError",
        "FastpackError",
        "InputNotFoundError",
        "InternalError",
        "LedgerError",
        "LossError",
        "OptionError",
        "OptionTypeError",
        "OutputError",
        "RecordError",
        "StorageError",
        "TemplateError",
        "TokenizerError",
        "VerificationError",
    ),
    "fastpack.report": ("Report",),
    "fastpack.tokenizer": ("Tokenizer",),
}

__all__ = [
    "AccessError",
    "FastpackError",
    "InputNotFoundError",
    "InternalError",
    "LedgerError",
    "LossError",
    "OptionError",
    "OptionTypeError",
    "OutputError",
    "PackStream",
    "Plan",
    "Progress",
    "RecordError",
    "Report",
    "ScanReport",
    "StorageError",
    "TemplateError",
    "Tokenizer",
    "TokenizerError",
    "VerificationError",
    "__version__",
    "pack_dir",
    "pack_files",
    "pack_records",
    "pack_table",
    "plan",
    "repack",
    "scan",
    "stream",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Loads the module that a public name lives in."""
        for module, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(module), name)
                globals()[name] = value
                return value
        message = f"module 'fastpack' has no attribute {name!r}"
        raise AttributeError(message)


def __dir__() -> list[str]:
    """Lists the public names, loaded or not."""
    return list(__all__)

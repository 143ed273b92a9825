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
    from fastpack._fastpack import Plan, __version__
    from fastpack.api import pack_dir, pack_files, pack_records, pack_table, plan, repack, scan, stream
    from fastpack.api.recipes import load_config
    from fastpack.dataset.export import export
    from fastpack.dataset.folder import read
    from fastpack.dataset.inspection import PackedRow, inspect
    from fastpack.dataset.status import JobStatus, status
    from fastpack.dataset.verification import Verification, verify
    from fastpack.errors import (
        AccessError,
        BatchError,
        ConnectionLostError,
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
        ThreadError,
        TokenizerError,
        VerificationError,
    )
    from fastpack.options.function import Function
    from fastpack.options.objective import (
        CausalLM,
        Classification,
        Custom,
        FillInMiddle,
        Generation,
        MaskedLM,
        MultiLabel,
        Preference,
        SpanCorruption,
    )
    from fastpack.options.output import Exists, Format, Groups
    from fastpack.options.packing import (
        Balanced,
        BestFit,
        Concat,
        Heap,
        Mix,
        Sequential,
        Truncate,
        Unpacked,
    )
    from fastpack.options.records import Images, Reading
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.options.work import Ranks, Select, Weights
    from fastpack.report.report import Report
    from fastpack.report.scan import ScanReport
    from fastpack.step.plan import StepPlan, plan_step
    from fastpack.streaming.connection import StreamConnection, connect
    from fastpack.streaming.reindexing import Reindexed, reindex
    from fastpack.streaming.states import merge_state_dicts, state_of
    from fastpack.streaming.stream import PackStream
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import Progress, Splits

_HOMES = {
    "Balanced": "options.packing",
    "BestFit": "options.packing",
    "CausalLM": "options.objective",
    "ChatTemplate": "options.tokens",
    "Classification": "options.objective",
    "Concat": "options.packing",
    "Custom": "options.objective",
    "Exists": "options.output",
    "FillInMiddle": "options.objective",
    "Format": "options.output",
    "Function": "options.function",
    "Generation": "options.objective",
    "Groups": "options.output",
    "Heap": "options.packing",
    "Images": "options.records",
    "JobStatus": "dataset.status",
    "MaskedLM": "options.objective",
    "Mix": "options.packing",
    "MultiLabel": "options.objective",
    "PackStream": "streaming.stream",
    "PackedRow": "dataset.inspection",
    "Padding": "options.rows",
    "Plan": "_fastpack",
    "Preference": "options.objective",
    "Progress": "types",
    "Ranks": "options.work",
    "Reading": "options.records",
    "Reindexed": "streaming.reindexing",
    "Report": "report.report",
    "ScanReport": "report.scan",
    "Select": "options.work",
    "Sequential": "options.packing",
    "SpanCorruption": "options.objective",
    "SpecialTokens": "options.tokens",
    "Splits": "types",
    "StepPlan": "step.plan",
    "Storage": "options.storage",
    "StreamConnection": "streaming.connection",
    "Tokenizer": "tokenizer.tokenizer",
    "TrainOn": "options.train_on",
    "Truncate": "options.packing",
    "Unpacked": "options.packing",
    "Verification": "dataset.verification",
    "Weights": "options.work",
    "__version__": "_fastpack",
    "connect": "streaming.connection",
    "export": "dataset.export",
    "inspect": "dataset.inspection",
    "load_config": "api.recipes",
    "merge_state_dicts": "streaming.states",
    "plan_step": "step.plan",
    "read": "dataset.folder",
    "reindex": "streaming.reindexing",
    "state_of": "streaming.states",
    "status": "dataset.status",
    "verify": "dataset.verification",
}
"""The public names beside errors and the functions of `api`, each with its module."""

_PACKAGES = ("hf", "ray", "torch", "wandb")
"""The subpackages that `import fastpack` does not load. Each is loaded when it is first used."""

__all__ = [
    "AccessError",
    "Balanced",
    "BatchError",
    "BestFit",
    "CausalLM",
    "ChatTemplate",
    "Classification",
    "Concat",
    "ConnectionLostError",
    "Custom",
    "Exists",
    "FastpackError",
    "FillInMiddle",
    "Format",
    "Function",
    "Generation",
    "Groups",
    "Heap",
    "Images",
    "InputNotFoundError",
    "InternalError",
    "JobStatus",
    "LedgerError",
    "LossError",
    "MaskedLM",
    "Mix",
    "MultiLabel",
    "OptionError",
    "OptionTypeError",
    "OutputError",
    "PackStream",
    "PackedRow",
    "Padding",
    "Plan",
    "Preference",
    "Progress",
    "Ranks",
    "Reading",
    "RecordError",
    "Reindexed",
    "Report",
    "ScanReport",
    "Select",
    "Sequential",
    "SpanCorruption",
    "SpecialTokens",
    "Splits",
    "StepPlan",
    "Storage",
    "StorageError",
    "StreamConnection",
    "TemplateError",
    "ThreadError",
    "Tokenizer",
    "TokenizerError",
    "TrainOn",
    "Truncate",
    "Unpacked",
    "Verification",
    "VerificationError",
    "Weights",
    "__version__",
    "connect",
    "export",
    "inspect",
    "load_config",
    "merge_state_dicts",
    "pack_dir",
    "pack_files",
    "pack_records",
    "pack_table",
    "plan",
    "plan_step",
    "read",
    "reindex",
    "repack",
    "scan",
    "state_of",
    "status",
    "stream",
    "verify",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Loads the module that a public name lives in."""
        if name in _PACKAGES:
            return import_module(f"fastpack.{name}")
        if name not in __all__:
            from fastpack.arguments.checks import nearest  # noqa: PLC0415  needed for what is not there alone
            from fastpack.options.mistakes.foreign_names import FOREIGN_NAMES  # noqa: PLC0415

            near = FOREIGN_NAMES.get(name) or nearest(name, __all__)
            meant = f"; did you mean {near!r}?" if near else ""
            message = f"module 'fastpack' has no attribute {name!r}{meant}"
            raise AttributeError(message)
        home = _HOMES.get(name, "errors" if name.endswith("Error") else "api")
        globals()[name] = getattr(import_module(f"fastpack.{home}"), name)
        return globals()[name]


def __dir__() -> list[str]:
    """Lists the public names, loaded or not."""
    return list(__all__)

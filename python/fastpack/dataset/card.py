"""The dataset card of a packed folder: `README.md`, as the hub of Hugging Face reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import folder_of
from fastpack.dataset.folder import Folder
from fastpack.errors import FastpackError, StorageError
from fastpack.report.report import Report
from fastpack.storage.removal import Temporary

if TYPE_CHECKING:
    from fastpack.types import StrPath

__all__ = ["card_text", "write_card"]

_SIZES: Final = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
"""The hub's words for numbers of rows."""

_OURS: Final = "<!-- written by `fastpack report --card` -->"
"""The mark of a card that fastpack wrote, and may replace."""


def write_card(folder: StrPath) -> Path:
    """Writes the card into the folder.

    Raises:
        OutputError: The folder has a README.md that fastpack did not write.
        StorageError: It cannot be written.
    """
    path = Path(folder_of("folder", folder)) / "README.md"
    text = card_text(folder)
    try:
        with Temporary(path) as new:
            new.path.write_text(text, encoding="utf-8")
            new.write_over(lambda begin: _OURS.encode() in begin)
    except FastpackError:
        raise
    except OSError as failed:
        raise StorageError(failed.errno, failed.strerror, str(path)) from failed
    return path


def card_text(folder: StrPath) -> str:
    """The card: the metadata for the hub, then the report and the use of the rows."""
    packed, report = Folder(folder), Report.of(folder)
    size = next((word for most, word in _SIZES if report.rows < most), "1M<n<10M")
    files = "\n".join(
        f"  - split: {split}\n    path:\n" + "\n".join(f"    - {shard.name}" for shard in packed.of(split))
        for split in packed.splits
    )
    name = packed.path.absolute().name
    tokenizer = report.to_dict().get("tokenizer") or "not recorded"
    losses = "".join(
        f"| {reason} | {lost.documents:,} | {lost.tokens:,} |\n" for reason, lost in report.dropped.items()
    )
    lost = (
        f"\n| lost | documents | tokens |\n|---|---:|---:|\n{losses}" if losses else "\nNothing was lost.\n"
    )
    columns = ", ".join(f"`{column}`" for column in packed.read(packed.splits[0]).column_names)
    return f"""\
---
pretty_name: {name}
size_categories:
- {size}
task_categories:
- text-generation
tags:
- fastpack
- packed
configs:
- config_name: default
  data_files:
{files}
---
{_OURS}

# {name}

{report.documents.kept:,} documents of {report.tokens.kept:,} tokens in {report.rows:,} rows of at most
{report.row_length} tokens, packed by fastpack with `{report.strategy}`; {report.fill:.2%} full,
{report.trained_share:.1%} of the tokens are trained. Tokenizer: `{tokenizer}`.
{lost}
Columns: {columns}. Labels are unshifted, and -100 where not trained. `position_ids` begin at 0 in each document, and
`seq_lengths` has the length of each, so that attention can keep documents apart.
"""

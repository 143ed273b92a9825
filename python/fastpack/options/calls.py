"""The docstring of each public function: its work, result, errors, and an example."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["CALLS", "Call", "Overload"]


class Overload(NamedTuple):
    """A way to call a function that decides what it returns.

    Attributes:
        fixed: The options that decide, each as a signature has it.
        rest: The `TypedDict` of the others.
        returns: What it returns.
    """

    fixed: tuple[str, ...]
    rest: str
    returns: str


class Call(NamedTuple):
    """A public function.

    Attributes:
        about: What it does, as its docstring begins.
        positional: The options that need no keyword, in their order.
        own: What it is about, where that is no option: name, type and what it holds.
        returns: The type of what it returns.
        result: What it returns.
        raises: Errors, and when they are raised.
        example: What one does with it, run as a test.
        overloads: Ways to call it that decide what it returns.
    """

    about: str
    positional: tuple[str, ...]
    returns: str
    result: str
    raises: tuple[str, ...]
    example: str
    own: tuple[str, str, str] | None = None
    overloads: tuple[Overload, ...] = ()


CALLS: Final[dict[str, Call]] = {
    "pack_files": Call(
        about="Packs files of conversations, requests or text into one table, or one to train on and one to validate.",
        positional=("files", "tokenizer"),
        returns="pa.Table | Splits",
        result="""A table with a row per pack. Each column is a list of int32: `input_ids`; `labels`, unshifted and -100 where
not trained; `position_ids`, from 0 in each document; `seq_lengths`, a length per document; but `loss_weights`
of float32, 0 where not trained. The schema metadata holds the timeless part of the report:
`Report.of(table)`. With `validation`, `Splits` of two such tables, `train` and `validation`, which unpack as
a pair; the report of both counts both, and has one of each as `splits`.""",
        raises=(
            "OptionError: An option has a value that it cannot have.",
            "RecordError: A record is not what it must be; has `path`, `line` and `reason`.",
            "TemplateError: The chat template cannot be used.",
            "TokenizerError: The tokenizer cannot be used.",
            "InputNotFoundError: A file is not there.",
            "VerificationError: The ids of a document that was verified differ.",
            "LossError: More is lost than `max_lost` allows.",
        ),
        example=""">>> import fastpack
>>> table = fastpack.pack_files(
...     "examples/chat.jsonl", "examples/tokenizer", max_length=512
... )
>>> row = table.slice(0, 1).to_pydict()
>>> sum(row["seq_lengths"][0]) == len(row["input_ids"][0]) <= 512
True
>>> row["labels"][0][0]
-100
>>> train, held_out = fastpack.pack_files(
...     "examples/chat.jsonl", "examples/tokenizer", max_length=512, validation=0.1
... )
>>> fastpack.Report.of(train).splits["validation"].rows == held_out.num_rows
True""",
        overloads=(
            Overload(("validation: None = None",), "FileArguments", "pa.Table"),
            Overload(("validation: Validation",), "FileArguments", "Splits"),
        ),
    ),
    "pack_dir": Call(
        about="""Packs files of conversations, requests or text into files in a folder.

Files are written beside their place and renamed when all is well, so a folder never holds half a job.
Running the same job again returns its report at once; where it was stopped on the way, whatever stopped it, it
goes on. The files are byte for byte those of a run that nothing disturbed.""",
        positional=("files", "output"),
        returns="Report",
        result="The report, which `output` holds as `report.json`.",
        raises=(
            """OutputError: The folder holds something else, and `overwrite` is not set or it is in the way; or it is
being written, and `wait` is not set.""",
            "FastpackError: As in `pack_files`.",
        ),
        example=""">>> import fastpack, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     report = fastpack.pack_dir(
...         "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=512
...     )
>>> report.documents.read == report.documents.kept + sum(
...     lost.documents for lost in report.dropped.values()
... )
True""",
    ),
    "pack_table": Call(
        about="""Packs the rows of a table that is in memory, without a copy of it, into a table or a folder.

A row is a record as in a file, of any of the shapes that files have; lists of messages are lists of structs, or
JSON text. Rows that are ids need no tokenizer: `input_ids`, and `labels`, `assistant_masks` or `completion_mask` if
not all of them are trained; `loss_weights` if they do not count alike; `attention_mask` if rows are filled up.""",
        positional=("tokenizer",),
        own=(
            "table",
            "ArrowTable",
            "A `pyarrow.Table`, a `datasets.Dataset`, whose selection and order hold, or anything else that hands over Arrow by `__arrow_c_stream__`: `polars`, `duckdb`, `pandas`.",
        ),
        returns="pa.Table | Splits | Report",
        result="""With `output` the report, which the folder holds as `report.json`; else a table, or `Splits` of two, as
`pack_files` returns it. Errors about a record name `<table>` and the row, from 1.""",
        raises=(
            "OptionError: An option has a value that it cannot have, or needs a tokenizer or an `output`.",
            "OutputError: As in `pack_dir`.",
            "FastpackError: As in `pack_files`.",
        ),
        example=""">>> import fastpack, pyarrow as pa
>>> documents = pa.table({"input_ids": [[1, 2, 3], [4, 5]]})
>>> fastpack.pack_table(documents, max_length=8)["input_ids"].to_pylist()
[[1, 2, 3, 4, 5]]
>>> texts = pa.table({"text": ["a river", "a boat"]})
>>> fastpack.pack_table(texts, "examples/tokenizer", max_length=16).num_rows
1""",
        overloads=(
            Overload(
                (
                    "output: StrPath",
                    "validation: Validation | None = None",
                ),
                "OutputArguments",
                "Report",
            ),
            Overload(
                (
                    "output: None = None",
                    "validation: None = None",
                ),
                "RecordArguments",
                "pa.Table",
            ),
            Overload(
                (
                    "output: None = None",
                    "validation: Validation",
                ),
                "RecordArguments",
                "Splits",
            ),
        ),
    ),
    "pack_records": Call(
        about="""Packs records that Python makes, into a table or a folder: a list of dicts, a generator, an iterable or map-style data set.

This is the one call in which the interpreter touches each record: it takes about as long as `json.dumps` of all
of them. Files and tables are read without it.""",
        positional=("tokenizer",),
        own=(
            "records",
            "Iterable[Mapping[str, JsonValue]]",
            "The records, each of them a dict of what JSON can hold, arrays and numbers of `numpy` among it. A field that holds something else by itself, such as a date, is left out. They are taken on the thread of this call, some at a time, and their exceptions reach the caller as they are. Of a map-style data set, with a length and items by number, these are the items; tensors are lists.",
        ),
        returns="pa.Table | Splits | Report",
        result="""With `output` the report, which the folder holds as `report.json`; else a table, or `Splits` of two, as
`pack_files` returns it. Errors about a record name `<records>` and its number, from 1.""",
        raises=(
            "OptionTypeError: `records` is no iterable of dicts.",
            "OutputError: As in `pack_dir`.",
            "FastpackError: As in `pack_files`.",
        ),
        example=""">>> import fastpack
>>> texts = ({"text": f"The river has {number} boats."} for number in range(20))
>>> table = fastpack.pack_records(texts, "examples/tokenizer", max_length=512)
>>> fastpack.Report.of(table).documents.kept
20""",
        overloads=(
            Overload(
                (
                    "output: StrPath",
                    "validation: Validation | None = None",
                ),
                "OutputArguments",
                "Report",
            ),
            Overload(
                (
                    "output: None = None",
                    "validation: None = None",
                ),
                "RecordArguments",
                "pa.Table",
            ),
            Overload(
                (
                    "output: None = None",
                    "validation: Validation",
                ),
                "RecordArguments",
                "Splits",
            ),
        ),
    ),
    "stream": Call(
        about="""Packs files while they are being read: shuffled, shared by ranks, and resumed at the very document.

The rows come from `lanes` that each read a part of the input and pack it alone; row `g` of a run is row `g // lanes`
of lane `g % lanes`. So they are the same for any number of ranks and threads.""",
        positional=("files", "tokenizer"),
        returns="PackStream",
        result="""An iterator of tables, which is a context manager too. Errors are raised from the loop, with their own type.
Its threads end when it is closed or dropped; `report` has the report once it is exhausted. `state_dict()` says
where it is, `load_state_dict()` goes on from there.""",
        raises=(
            "OptionError: An option has a value that it cannot have.",
            "FastpackError: As in `pack_files`; while iterating, what concerns the data.",
        ),
        example=""">>> import fastpack
>>> stream = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
>>> table = next(stream)
>>> state = stream.state_dict()
>>> rest = sum(table.num_rows for table in stream)
>>> again = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
>>> again.load_state_dict(state)
>>> sum(table.num_rows for table in again) == rest
True""",
    ),
    "scan": Call(
        about="""Reads files and packs nothing: what they hold, which records are bad, and how rows of each length would do.

All is done that packing does, up to the plan of the rows; a bad record is counted and named, and ends nothing.""",
        positional=("files", "tokenizer"),
        returns="ScanReport",
        result="What was found; `print` it.",
        raises=("FastpackError: As in `pack_files`, but for bad records.",),
        example=""">>> import fastpack
>>> found = fastpack.scan("examples/chat.jsonl", "examples/tokenizer", max_length=[256, 512])
>>> [fit.max_length for fit in found.fits], found.lost
([256, 512], {})""",
    ),
    "plan": Call(
        about="Packs lengths alone: which documents share a row, and in which order.",
        positional=(),
        own=("lengths", "Lengths", "The length of each document, in tokens."),
        returns="_fastpack.Plan",
        result="""The plan, as numpy arrays: row `r` holds the pieces `offsets[r]` to `offsets[r + 1]`, and piece `p` is
`lengths[p]` tokens of document `members[p]`, from its token `starts[p]` on. `dropped` names the documents
that are in no row; `fill` is from 0 to 1, and `lower_bound` counts the rows that no packing of these pieces
can do without.""",
        raises=(
            """OptionError: An option has a value that it cannot have, or a length is below 1 or above what can be cut
(2**31 - 1).""",
        ),
        example=""">>> import fastpack
>>> found = fastpack.plan([5, 3, 7, 2], max_length=8, order="input")
>>> found.offsets.tolist(), found.members.tolist()
([0, 2, 3, 4], [0, 1, 2, 3])""",
    ),
    "repack": Call(
        about="""Packs the tokens that `pack_dir(keep_tokens=True)` kept once more, without tokenizing.

Whole documents were kept, so those that were dropped for their length are back where they fit. The rows are
those of `pack_dir` with these options and the files as they were.""",
        positional=("output",),
        own=("source", "StrPath", "The folder that `pack_dir` wrote."),
        returns="Report",
        result="The report, which `output` holds as `report.json`.",
        raises=(
            "OutputError: `source` holds no tokens; or `output` as in `pack_dir`.",
            "FastpackError: As in `pack_files`.",
        ),
        example=""">>> import fastpack, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     long = fastpack.pack_dir(
...         "examples/chat.jsonl",
...         f"{folder}/long",
...         tokenizer="examples/tokenizer",
...         max_length=512,
...         keep_tokens=True,
...     )
...     short = fastpack.repack(f"{folder}/long", f"{folder}/short", max_length=128)
>>> short.documents.read == long.documents.read
True""",
    ),
}
"""By their names."""

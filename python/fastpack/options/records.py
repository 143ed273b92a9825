"""The options of reading: the records, and the meaning of their fields."""

from __future__ import annotations

from typing import Final

from fastpack.options.function import FUNCTION
from fastpack.options.option import (
    FILE_CALLS,
    FOLDER_CALLS,
    INPUTS,
    MODEL,
    READING,
    ROW_CALLS,
    RUN,
    TOKENIZING_CALLS,
    TRAINING_CALLS,
    Differs,
    Flag,
    Option,
)

__all__ = ["RECORD_OPTIONS"]

RECORD_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "files",
        "Files | None",
        None,
        FILE_CALLS,
        (
            "Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or a "
            "list of these. A folder's files are read in the order of their paths. They may lie in remote storage "
            "(`s3://`, `gs://`, `az://`, `https://`, `hf://datasets/ORG/NAME`)."
        ),
        group=INPUTS,
        differs={
            **dict.fromkeys(
                ("pack_files", "pack_dir"),
                Differs(
                    type="Files | NamedSources | None",
                    doc=(
                        "Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or a "
                        "list of these; or a dict of sources by their names. A folder's files are read in the order of their "
                        "paths. They may lie in remote storage (`s3://`, `gs://`, `az://`, `https://`, "
                        "`hf://datasets/ORG/NAME`)."
                    ),
                ),
            ),
            "stream": Differs(
                type="Files | Records | NamedSources | None",
                doc=(
                    "Files as in `pack_files`; or what gives records anew for each epoch: a function that returns an iterator of "
                    "them, an object whose `__iter__` starts anew, or a data set of `datasets`; or a dict of sources by their "
                    "names, each as one of these or as an entry of `sources`, which may hold `records` in place of a `path`, and "
                    "the `fingerprint` that names them."
                ),
            ),
        },
    ),
    Option(
        "sources",
        "Sequence[Source] | None",
        None,
        FILE_CALLS,
        (
            "In place of `files`: dicts of a `path`, which is what `files` would be, and what of `shape`, `fields`, "
            "`prompt` and `separator` these files need for themselves; `limit`, how many records are read of them, "
            "`repeat`, how many times; and `fraction`, how much of them is drawn."
        ),
        group=INPUTS,
        flag=Flag(
            "--sources",
            "in place of files: a list of objects with path, shape, fields, prompt, limit, repeat; or its file",
            metavar="JSON",
            type="json_list_or_file",
            unset="none",
        ),
    ),
    Option(
        "recursive",
        "bool",
        False,
        FILE_CALLS,
        "Whether the folders inside a folder are read too.",
        group=INPUTS,
        flag=Flag("--recursive", "read folders inside folders too", switch=True),
    ),
    Option(
        "storage_options",
        "Mapping[str, str] | None",
        None,
        FILE_CALLS | FOLDER_CALLS,
        (
            "Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions and endpoints by the "
            "names that `object_store`, polars and pandas have for them, such as `aws_region`; what is not given comes from "
            "environment variables such as `AWS_REGION`. `max_retries`, `timeout` and `connect_timeout` are for all of them. "
            "Nothing of it is written to a manifest, a report or a message."
        ),
        group=INPUTS,
        flag=Flag(
            "--storage-options",
            'options of remote storage, such as {"aws_region": "eu-west-1"}',
            metavar="JSON",
            type="json_object",
            unset="environment variables",
        ),
    ),
    Option(
        "filesystem",
        "FsspecFileSystem | None",
        None,
        FILE_CALLS,
        (
            "A filesystem of `fsspec` that holds the inputs, such as `fsspec.filesystem('sftp', host='host')`: all paths, folders "
            "and globs are on it. It is the slow path for storage that fastpack does not read itself, since Python fetches the "
            "bytes, one range after the other. The output is not written to it."
        ),
        group=INPUTS,
    ),
    Option(
        "block_cache",
        "int | str | None",
        None,
        FILE_CALLS,
        (
            "The most bytes that are kept on the local disk of what is fetched from remote storage, such as `20GB`, so that "
            "another epoch or a resumed job is read from there. They lie in `blocks` inside `cache_dir`, or inside "
            "`~/.cache/fastpack` without one; what was not used for longest is removed first."
        ),
        group=INPUTS,
        flag=Flag(
            "--block-cache",
            "keep what is fetched on the local disk, up to this size, such as 20GB",
            metavar="SIZE",
            unset="nothing is kept",
        ),
    ),
    Option(
        "shape",
        "Shape | None",
        None,
        TOKENIZING_CALLS,
        (
            "What the records are: `conversations`, `prompt_completion`, `instruction`, `question_answer`, `text` or "
            "`tokens`; `preference` or `unpaired_preference` for the objective `preference`; also `prompt` for "
            "`generation`, and `labelled_text` or `labelled_pair` for `classification` and `multi_label`. Found for each file by "
            "its first records if not given."
        ),
        group=READING,
        flag=Flag(
            "--shape",
            "what the records are, if not to be found out",
            words="Shape",
            unset="found for each file",
        ),
    ),
    Option(
        "fields",
        "Fields | None",
        None,
        TOKENIZING_CALLS,
        (
            'The fields that hold the parts of a record, where the usual ones do not, such as `{"question": "query", '
            '"answer": "solution"}`.'
        ),
        group=READING,
        flag=Flag(
            "--fields",
            "fields that hold parts of a record, such as question=query,answer=solution",
            metavar="PART=FIELD,...",
            type="pairs",
            unset="the usual names",
        ),
    ),
    Option(
        "prompt",
        "Prompt | None",
        None,
        TOKENIZING_CALLS,
        (
            "How requests that are no conversations become texts: `alpaca`, `chatml`, `vicuna`, one of the prompts "
            "for mathematics (`qa`, `wizardmath-cot`, `deepseekmath`, `deepseekmath-tool`, `xwinmath`, "
            "`mammoth2-cot`, `llama3-math`), a text with places such as `{instruction}`, a dict of parts, or a file "
            "of either. If not given, instructions and questions become a conversation for the chat template, or are "
            "put as `alpaca` has them where there is none; a prompt and its completion are joined as they are."
        ),
        group=READING,
        flag=Flag(
            "--prompt",
            "how requests become texts: a text with {instruction}, a file, or one of",
            words="NamedPrompt",
            unset="none",
        ),
    ),
    Option(
        "examples",
        "Examples | None",
        None,
        TOKENIZING_CALLS,
        "Requests with their answers that stand before each request, and are not trained.",
        group=READING,
        flag=Flag(
            "--examples",
            "list of [request, answer] before each request",
            metavar="JSON",
            type="json_list",
            unset="none",
        ),
    ),
    Option(
        "separator",
        "str | None",
        None,
        FILE_CALLS,
        "What stands between the documents of a `.txt` or `.md` file; each is one document if not given.",
        group=READING,
        flag=Flag(
            "--separator",
            "what stands between the documents of a text file",
            metavar="TEXT",
            unset="none: a file is a document",
        ),
    ),
    Option(
        "filter",
        "RecordFilter | Function[bool] | None",
        None,
        TOKENIZING_CALLS,
        (
            "A function that chooses among the records: it takes a `pyarrow.RecordBatch` of them and returns a "
            "boolean for each. Those left out are counted in the report, as `filtered`. It is called in the order of "
            "the input, on the thread of this call. A `Function` of it has a fingerprint, or takes records."
        ),
        group=MODEL,
        flag=Flag(
            "--filter",
            (
                "Python function of a pyarrow.RecordBatch that says which records stay: filters.py:good, or "
                "module:good"
            ),
            metavar="PLACE:NAME",
            type="function_at",
            unset="none",
        ),
        kinds=FUNCTION,
    ),
    Option(
        "map",
        "RecordMap | Function[dict[str, object]] | None",
        None,
        TOKENIZING_CALLS,
        (
            "A function that makes others of the records that were chosen: it takes a `pyarrow.RecordBatch` of them "
            "and returns one with as many rows."
        ),
        group=MODEL,
        flag=Flag(
            "--map",
            "Python function of a pyarrow.RecordBatch that makes others of the records",
            metavar="PLACE:NAME",
            type="function_at",
            unset="none",
        ),
        kinds=FUNCTION,
    ),
    Option(
        "on_bad_record",
        "OnBadRecord",
        "error",
        TRAINING_CALLS,
        "What happens to a record that cannot be read: `error`, or `skip` and count it.",
        group=RUN,
        flag=Flag("--on-bad-record", "records that cannot be read", words="OnBadRecord"),
    ),
    Option(
        "max_lost",
        "MaxLost | None",
        None,
        ROW_CALLS,
        (
            'How much of the documents, and of their tokens, may be lost, such as `"0.1%"` or 0.001; if it is more, '
            "the run fails before anything is in its place, and says why and where. No limit if not given."
        ),
        group=RUN,
        differs={
            "stream": Differs(
                doc="As in `pack_files`, but it is at its end, when all is counted, that a stream fails."
            ),
        },
        flag=Flag(
            "--max-lost",
            "how much may be lost before the run fails, such as 0.1%%",
            metavar="SHARE",
            unset="no limit",
        ),
    ),
)

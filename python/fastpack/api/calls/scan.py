"""`fastpack.scan`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import scan as run
from fastpack.options.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fastpack.options.function import Function
    from fastpack.options.train_on import TrainOn
    from fastpack.report.scan import ScanReport
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Eos,
        Examples,
        Fields,
        Files,
        FsspecFileSystem,
        JsonValue,
        Overlong,
        ProgressOption,
        Prompt,
        RecordFilter,
        RecordMap,
        Shape,
        Side,
        Source,
        SpecialInText,
        Strategy,
        StrPath,
        TemplateEngine,
        TrainedTokens,
        TrainOnEos,
        Turns,
    )

__all__ = ["scan"]


@suggesting
def scan(
    files: Files | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | Sequence[int] = (2048, 4096, 8192, 16384, 32768),
    strategy: Strategy = "mix",
    overlong: Overlong | None = None,
    truncation_side: Side = "right",
    max_documents_per_pack: int | None = None,
    train_on: TrainedTokens | TrainOn = "auto",
    turns: Turns = "auto",
    train_on_eos: TrainOnEos | None = None,
    special_in_text: SpecialInText = "encode",
    decode_arguments: bool = False,
    eos: Eos = "auto",
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = "native",
    now: datetime | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    sources: Sequence[Source] | None = None,
    recursive: bool = False,
    storage_options: Mapping[str, str] | None = None,
    filesystem: FsspecFileSystem | None = None,
    block_cache: int | str | None = None,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    separator: str | None = None,
    filter: RecordFilter | Function[bool] | None = None,
    map: RecordMap | Function[dict[str, object]] | None = None,
    threads: int | None = None,
    progress: ProgressOption = None,
    sample: int | None = None,
) -> ScanReport:
    r"""Reads files and packs nothing: what they hold, which records are bad, and how rows of each length would do.

    All is done that packing does, up to the plan of the rows; a bad record is counted and named, and ends nothing.

    Args:
        files: Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or
            a list of these. A folder's files are read in the order of their paths. They may lie in remote storage
            (`s3://`, `gs://`, `az://`, `https://`, `hf://datasets/ORG/NAME`).
        tokenizer: A `Tokenizer`, or what makes one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of
            `transformers` or `tokenizers`. Records that are ids need none.
        max_length: The lengths of rows to try, one or several.
        strategy: How documents are put together. `mix`: the longest, then others at random, then what fills the
            row to the last token; `best_fit`: longest first, each into the row that it fills best; `heap`:
            longest first, into the one open row; `sequential`: in input order, into the one open row; `concat`:
            end to end in input order, cut where a row ends; `none`: a row per document, as all rows are of the
            objectives `preference`, `generation`, `classification` and `multi_label`.
        overlong: What happens to a document longer than a row: `drop` and count it; `truncate` it and count what
            is cut off; `trim` a conversation, which cuts it after the last turn of the assistant that fits and
            drops what cannot be trimmed; `split` it into pieces that are documents of their own from then on; or
            `error`. If not given, text is split, and conversations and ids are dropped.
        truncation_side: The end at which `truncate` cuts a document: at the `right` its last tokens go, at the
            `left` its first.
        max_documents_per_pack: Documents that a row holds at most, each piece of one counted.
        train_on: Which tokens carry a label: `assistant` turns, the `completion` of a request, `all`; or `auto`,
            which is the first for conversations, the third for requests with answers and `all` for text. A
            message may say for itself: `train`, true or false, or `weight`. A `TrainOn` says which roles, and
            which parts of turns.
        turns: The documents that a conversation becomes: `whole` makes one and trains every turn as it is written
            there; `last` trains the last turn alone; `each` makes one a turn; `auto` makes the fewest in which
            each turn stands behind exactly what the model sees there: one, unless the chat template writes
            earlier turns otherwise once others follow.
        train_on_eos: Which tokens that end a trained turn are trained: of every `turn`, of the `last`, or `none`;
            those that the chat template marks if not given. `none` holds for the end of a text too, and for that
            of ids without labels.
        special_in_text: What happens to a control token of the tokenizer, such as `<|im_end|>`, that stands in a
            text of a user or a tool: `encode` makes that token of it, as `transformers` does; `split` encodes its
            characters as other text, as `sanitize_control_tokens` of `transformers` does; `error` refuses the
            record.
        decode_arguments: Whether arguments of tool calls that are JSON text are decoded to objects, where the
            chat template encodes the text a second time (`"{\"city\": \"Rome\"}"`). Without it they are rendered
            as `transformers` does.
        eos: Whether the end-of-text token is appended where a document does not end with it, white space aside:
            `auto` does so for text and for requests put into words by a prompt, and leaves conversations as their
            template ends them; `True` and `False` hold for both.
        chat_template: A Jinja text, the path of one, or the name of one of the tokenizer's templates; the
            tokenizer's own if not given.
        chat_template_kwargs: Variables for the chat template; those of a record win over them.
        template_engine: What renders a chat template, or a value in it, that is not known to render as in
            `transformers`: `native` refuses it by name; `python` lets `transformers` render it, in processes of
            its own, which is much slower, and says so in the report.
        now: What templates see as the time of day; the time of the call if not given.
        revision: The branch, tag or commit of a hub name; refused for a tokenizer on the disk or in memory, which
            has none.
        token: The access token for a hub name.
        sources: In place of `files`: dicts of a `path`, which is what `files` would be, and what of `shape`,
            `fields`, `prompt` and `separator` these files need for themselves; `limit`, how many records are read
            of them, `repeat`, how many times; and `fraction`, how much of them is drawn.
        recursive: Whether the folders inside a folder are read too.
        storage_options: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions
            and endpoints by the names that `object_store`, polars and pandas have for them, such as `aws_region`;
            what is not given comes from environment variables such as `AWS_REGION`. `max_retries`, `timeout` and
            `connect_timeout` are for all of them. Nothing of it is written to a manifest, a report or a message.
        filesystem: A filesystem of `fsspec` that holds the inputs, such as `fsspec.filesystem('sftp',
            host='host')`: all paths, folders and globs are on it. It is the slow path for storage that fastpack
            does not read itself, since Python fetches the bytes, one range after the other. The output is not
            written to it.
        block_cache: The most bytes that are kept on the local disk of what is fetched from remote storage, such
            as `20GB`, so that another epoch or a resumed job is read from there. They lie in `blocks` inside
            `cache_dir`, or inside `~/.cache/fastpack` without one; what was not used for longest is removed
            first.
        shape: What the records are: `conversations`, `prompt_completion`, `instruction`, `question_answer`,
            `text` or `tokens`; `preference` or `unpaired_preference` for the objective `preference`; also
            `prompt` for `generation`, and `labelled_text` or `labelled_pair` for `classification` and
            `multi_label`. Found for each file by its first records if not given.
        fields: The fields that hold the parts of a record, where the usual ones do not, such as `{"question":
            "query", "answer": "solution"}`.
        prompt: How requests that are no conversations become texts: `alpaca`, `chatml`, `vicuna`, one of the
            prompts for mathematics (`qa`, `wizardmath-cot`, `deepseekmath`, `deepseekmath-tool`, `xwinmath`,
            `mammoth2-cot`, `llama3-math`), a text with places such as `{instruction}`, a dict of parts, or a file
            of either. If not given, instructions and questions become a conversation for the chat template, or
            are put as `alpaca` has them where there is none; a prompt and its completion are joined as they are.
        examples: Requests with their answers that stand before each request, and are not trained.
        separator: What stands between the documents of a `.txt` or `.md` file; each is one document if not given.
        filter: A function that chooses among the records: it takes a `pyarrow.RecordBatch` of them and returns a
            boolean for each. Those left out are counted in the report, as `filtered`. It is called in the order
            of the input, on the thread of this call. A `Function` of it has a fingerprint, or takes records.
        map: A function that makes others of the records that were chosen: it takes a `pyarrow.RecordBatch` of
            them and returns one with as many rows.
        threads: Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine, if
            not given. Never changes the output.
        progress: `True` for a bar on stderr, `False` for none, a callable that takes a `Progress`; if not given,
            a bar where stderr is a terminal.
        sample: About how many records to read, the same ones each time, from places all over the files; all if
            not given. What is told of records, tokens, rows and time is then an estimate for all of them. Line
            files that are not compressed are entered throughout, others are read through as far as a second goes;
            a warning says up to where.

    Returns:
        What was found; `print` it.

    Raises:
        FastpackError: As in `pack_files`, but for bad records.

    Examples:
        >>> import fastpack
        >>> found = fastpack.scan("examples/chat.jsonl", "examples/tokenizer", max_length=[256, 512])
        >>> [fit.max_length for fit in found.fits], found.lost
        ([256, 512], {})
    """
    return run(
        {
            "files": files,
            "tokenizer": tokenizer,
            "max_length": max_length,
            "strategy": strategy,
            "overlong": overlong,
            "truncation_side": truncation_side,
            "max_documents_per_pack": max_documents_per_pack,
            "train_on": train_on,
            "turns": turns,
            "train_on_eos": train_on_eos,
            "special_in_text": special_in_text,
            "decode_arguments": decode_arguments,
            "eos": eos,
            "chat_template": chat_template,
            "chat_template_kwargs": chat_template_kwargs,
            "template_engine": template_engine,
            "now": now,
            "revision": revision,
            "token": token,
            "sources": sources,
            "recursive": recursive,
            "storage_options": storage_options,
            "filesystem": filesystem,
            "block_cache": block_cache,
            "shape": shape,
            "fields": fields,
            "prompt": prompt,
            "examples": examples,
            "separator": separator,
            "filter": filter,
            "map": map,
            "threads": threads,
            "progress": progress,
            "sample": sample,
        }
    )

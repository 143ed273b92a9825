"""`fastpack.scan`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import scan as run
from fastpack.options.mistakes.hints import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastpack.options.function import Function
    from fastpack.options.packing import Packing, Truncate
    from fastpack.options.records import Reading
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.report.scan import ScanReport
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Files,
        Overlong,
        ProgressOption,
        RecordFilter,
        RecordMap,
        Shape,
        Source,
        Strategy,
        StrPath,
        TrainedTokens,
        Turns,
    )

__all__ = ["scan"]


@suggesting
def scan(
    files: Files | Sequence[Source] | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | Sequence[int] = (2048, 4096, 8192, 16384, 32768),
    strategy: Strategy | Packing = "mix",
    overlong: Overlong | Truncate | None = None,
    train_on: TrainedTokens | TrainOn = "auto",
    turns: Turns = "auto",
    special_tokens: SpecialTokens | None = None,
    chat_template: StrPath | ChatTemplate | None = None,
    reading: Shape | Reading | None = None,
    filter: RecordFilter | Function[bool] | None = None,
    map: RecordMap | Function[dict[str, object]] | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    threads: int | None = None,
    progress: ProgressOption = None,
    sample: int | None = None,
) -> ScanReport:
    """Reads files and packs nothing: what they hold, which records are bad, and how rows of each length would do.

    All is done that packing does, up to the plan of the rows; a bad record is counted and named, and ends nothing.

    Args:
        files: Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or
            a list of these, or of dicts of a `path` and what of `shape`, `fields`, `prompt` and `separator` its
            files need for themselves; `limit`, how many records are read of them, and `repeat`, how many times. A
            folder's files are read in the order of their paths. They may lie in remote storage (`s3://`, `gs://`,
            `az://`, `https://`, `hf://datasets/ORG/NAME`).
        tokenizer: A `Tokenizer`, or what makes one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of
            `transformers` or `tokenizers`. Records that are ids need none.
        max_length: The lengths of rows to try, one or several.
        strategy: How documents are put together. `mix`: the longest, then others at random, then what fills the
            row to the last token; `best_fit`: longest first, each into the row that it fills best; `heap`:
            longest first, into the one open row; `sequential`: in input order, into the one open row; `concat`:
            end to end in input order, cut where a row ends; `none`: a row per document, as all rows are of the
            objectives `preference`, `generation`, `classification` and `multi_label`. A word stands for the value
            with its defaults; `Concat(drop_last=True)` and the others have options of their own.
        overlong: What happens to a document longer than a row: `drop` and count it; `truncate` it and count what
            is cut off, at either end by a `Truncate`; `trim` a conversation, which cuts it after the last turn of
            the assistant that fits and drops what cannot be trimmed; `split` it into pieces that are documents of
            their own from then on; or `error`. If not given, text is split, and conversations and ids are
            dropped.
        train_on: Which tokens carry a label: `assistant` turns, the `completion` of a request, `all`; or `auto`,
            which is the first for conversations, the third for requests with answers and `all` for text. A
            message may say for itself: `train`, true or false, or `weight`. A `TrainOn` says which roles, and
            which parts of turns.
        turns: The documents that a conversation becomes: `whole` makes one and trains every turn as it is written
            there; `last` trains the last turn alone; `each` makes one a turn; `auto` makes the fewest in which
            each turn stands behind exactly what the model sees there: one, unless the chat template writes
            earlier turns otherwise once others follow.
        special_tokens: A `SpecialTokens`: whether documents begin and end with special tokens, what happens to
            those that stand in texts, and which ends of turns are trained.
        chat_template: A Jinja text, the path of one, or the name of one of the tokenizer's templates; the
            tokenizer's own if not given. A `ChatTemplate` has variables, an engine and the time of day too.
        reading: What the records are, such as `conversations` or `text`; found for each file by its first records
            if not given. A `Reading` has names of fields, a prompt, examples and a separator of texts too, and
            reads folders inside folders.
        filter: A function that chooses among the records: it takes a `pyarrow.RecordBatch` of them and returns a
            boolean for each. Those left out are counted in the report, as `filtered`. It is called in the order
            of the input, on the thread of this call. A `Function` of it has a fingerprint, or takes records.
        map: A function that makes others of the records that were chosen: it takes a `pyarrow.RecordBatch` of
            them and returns one with as many rows.
        storage: Options of remote storage (`s3://`, `gs://`, `az://`, `https://`): credentials, regions and
            endpoints; from environment variables if not given. A `Storage` has a filesystem of `fsspec`, the
            token and revision of a hub name, and folders of this machine too.
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
            "train_on": train_on,
            "turns": turns,
            "special_tokens": special_tokens,
            "chat_template": chat_template,
            "reading": reading,
            "filter": filter,
            "map": map,
            "storage": storage,
            "threads": threads,
            "progress": progress,
            "sample": sample,
        }
    )

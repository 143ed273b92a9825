"""`fastpack.stream`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import stream as run
from fastpack.api.suggest import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fastpack._tokenizer import TokenizerArgument
    from fastpack._types import (
        Bos,
        Column,
        Eos,
        Examples,
        Fields,
        Files,
        JsonValue,
        MaxLost,
        NamedSources,
        OnBadRecord,
        OnExhausted,
        Overlong,
        PadTo,
        ProgressOption,
        Prompt,
        RecordFilter,
        RecordMap,
        Shape,
        Side,
        Source,
        StreamStrategy,
        StrPath,
        TemplateEngine,
        TrainOn,
        TrainOnEos,
        Weights,
        WeightUnit,
    )
    from fastpack.api.streaming import PackStream
    from fastpack.tokenizer import Tokenizer

__all__ = ["stream"]


@suggesting
def stream(
    files: Files | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | None = None,
    strategy: StreamStrategy = "best_fit",
    overlong: Overlong | None = None,
    truncation_side: Side = "right",
    drop_last: bool = False,
    shuffle: bool = True,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    seed: int = 0,
    pad_to: PadTo | None = None,
    padding_side: Side = "right",
    pad_token_id: int | None = None,
    shift_labels: bool = False,
    columns: Sequence[Column] = ("input_ids", "labels", "position_ids", "seq_lengths"),
    train_on: TrainOn = "auto",
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = "auto",
    bos: Bos = "auto",
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = "native",
    now: datetime | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    sources: Sequence[Source] | None = None,
    recursive: bool = False,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    separator: str | None = None,
    filter: RecordFilter | None = None,
    filter_fingerprint: str | None = None,
    map: RecordMap | None = None,
    map_fingerprint: str | None = None,
    on_bad_record: OnBadRecord = "error",
    max_lost: MaxLost | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = False,
    batch_size: int = 8,
    open_packs: int = 16,
    weights: Weights | None = None,
    weight_unit: WeightUnit = "tokens",
    on_exhausted: OnExhausted = "repeat",
    epochs: int | None = 1,
    max_steps: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    lanes: int | None = None,
) -> PackStream:
    """Packs files while they are being read: shuffled, shared by ranks, and resumed at the very document.

    The rows come from `lanes` that each read a part of the input and pack it alone; row `g` of a run is row `g // lanes`
    of lane `g % lanes`. So they are the same for any number of ranks and threads.

    Args:
        files: Files as in `pack_files`; or a dict of sources by their names, each as `files` or as an entry of
            `sources`.
        tokenizer: A `Tokenizer`, or what makes one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of
            `transformers` or `tokenizers`. Records that are ids need none.
        max_length: Tokens that a row holds at most. Only `strategy="none"` needs none: then a row is as long as
            its document.
        strategy: How each lane puts documents together: `best_fit` over `open_packs` rows; or `sequential`,
            `concat` or `none`, which give the rows of `pack_files` with `shuffle=False, lanes=1`.
        overlong: What happens to a document longer than a row: `drop` and count it; `truncate` it and count what
            is cut off; `trim` a conversation, which cuts it after the last turn of the assistant that fits and
            drops what cannot be trimmed; `split` it into pieces that are documents of their own from then on; or
            `error`. If not given, text is split, and conversations and ids are dropped.
        truncation_side: The end at which `truncate` cuts a document: at the `right` its last tokens go, at the
            `left` its first.
        drop_last: Whether `concat` drops its last row, and counts it, if it is not full.
        shuffle: Whether records are read in an order drawn from `seed`, another one in each epoch: files,
            stretches of files, and records in them. `False` is the order of the input.
        max_documents_per_pack: Documents that a row holds at most, each piece of one counted.
        align_documents_to: What the length that each document takes in a row is a multiple of, as context and
            tensor parallel training want it; it must divide `max_length`. What makes a length a multiple counts
            as padding: no labels, positions that count on, and part of the document in `seq_lengths`.
        seed: Random seed. The same seed gives the same rows.
        pad_to: What a row is filled up to: `max_length`, or a multiple that divides it. Padding has no labels,
            positions of its own from 0, and one last entry in `seq_lengths`.
        padding_side: The end of a row at which it is filled up: `right`, or `left`, where its entry in
            `seq_lengths` comes first.
        pad_token_id: The id to fill up with; the tokenizer's `pad_token`, else its `eos_token`, if not given.
            Without a tokenizer it must be given.
        shift_labels: Whether each label stands one place before its token, where it is predicted; for trainers
            that do not shift labels themselves, as those of `transformers` and TRL do.
        columns: The columns of the rows, in their order: `input_ids`, `labels`, `position_ids`, `seq_lengths`,
            and those that are written only if named. Lists as long as `input_ids`: `document_ids`, which number
            the documents of a row from 1, with 0 for padding; `loss_weights`, what messages say of their weight,
            0 where there is no label. Lists as long as `seq_lengths`: `unpadded_lengths`, how much of each is no
            padding; `source_file`, the number of a document's file in `Report.sources`; `source_row`, its line or
            record there, from 1; `source_start`, the place of its first token in its document, from 0; all are -1
            for padding. Numbers: `attn_cost`, the sum of the squares of `seq_lengths` without the row's padding;
            `group`, the number of the step that `balanced` puts the row in.
        train_on: Which tokens carry a label: `assistant` turns, the `last_assistant` turn, the `completion` of a
            request, `all`; or `auto`, which is the first for conversations, the third for requests with answers
            and `all` for text. A message may say for itself: `train`, true or false, or `weight`.
        train_on_eos: Which tokens that end a trained turn are trained: of every `turn`, of the `last`, or `none`;
            those that the chat template marks if not given. `none` holds for the end of a text too, and for that
            of ids without labels.
        eos: Whether the end-of-text token is appended: `auto` does so for text and for requests put into words by
            a prompt, and leaves conversations as their template ends them; `True` and `False` hold for both.
        bos: Whether a document begins with the token that begins a text: `auto` leaves it to tokenizer and
            template, `True` adds it where it is missing.
        chat_template: A Jinja text, the path of one, or the name of one of the tokenizer's templates; the
            tokenizer's own if not given.
        chat_template_kwargs: Variables for the chat template; those of a record win over them.
        template_engine: What renders a chat template, or a value in it, that is not known to render as in
            `transformers`: `native` refuses it by name; `python` lets `transformers` render it, in processes of
            its own, which is much slower, and says so in the report.
        now: What templates see as the time of day; the time of the call if not given.
        revision: The branch, tag or commit of a hub name.
        token: The access token for a hub name.
        sources: In place of `files`: dicts of a `path`, which is what `files` would be, and what of `shape`,
            `fields`, `prompt` and `separator` these files need for themselves; `limit`, how many records are read
            of them, and `repeat`, how many times.
        recursive: Whether the folders inside a folder are read too.
        shape: What the records are: `conversations`, `prompt_completion`, `instruction`, `question_answer`,
            `text` or `tokens`; found for each file by its first records if not given.
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
            of the input, on the thread of this call.
        filter_fingerprint: A name for `filter`, such as `"v1"`, that stands for its code where a job is resumed
            or found in a cache; change it whenever the function changes. If not given, the function is told by
            its code and all that this reaches. If it reaches what cannot be followed, such as a file, the run
            starts anew each time, and the report says why.
        map: A function that makes others of the records that were chosen: it takes a `pyarrow.RecordBatch` of
            them and returns one with as many rows.
        map_fingerprint: A name for `map`, as `filter_fingerprint` is one for `filter`.
        on_bad_record: What happens to a record that cannot be read: `error`, or `skip` and count it.
        max_lost: As in `pack_files`, but it is at its end, when all is counted, that a stream fails.
        threads: Worker threads; as many as affinity and cgroup allow, shared among the ranks of this machine, if
            not given. Never changes the output.
        verify: How many documents, evenly spread over the input, are encoded by the Hugging Face crate too, so
            that a difference ends the run.
        progress: As in `pack_files`, but no bar unless asked for.
        batch_size: Rows of a table; the last may have fewer.
        open_packs: Rows that `best_fit` keeps open in each lane; more of them fill better and come later.
        weights: The share of each source that `files` names: a dict by name, or a list of `(row, weights)` of
            which each holds from that row of the run on, the first from row 0. Without it all sources are read as
            one.
        weight_unit: What `weights` are shares of: `tokens` or `documents`.
        on_exhausted: What happens when a lane has read a source with a weight `epochs` times: `repeat` reads it
            again until all have been read, `stop` ends the lane, `drop` gives its share to the others.
        epochs: How often the input is read; `None` is without end. Several ranks need `None`.
        max_steps: After how many tables the stream ends, those before a resume included; not before the input
            does, if not given.
        rank: The data-parallel rank that this stream is for, from 0. If not given, `rank` and `world_size` are
            those that torchrun, Slurm's `srun` or MPI name in the environment, which the report says; else there
            is one.
        world_size: The data-parallel ranks that share the rows. `world_size * batch_size` must divide `lanes`.
        lanes: The parts in which the input is read and packed. A resumed run keeps those of its state. If not
            given, the least multiple of `world_size * batch_size` that is 64 or more.

    Returns:
        An iterator of tables, which is a context manager too. Errors are raised from the loop, with their own type.
        Its threads end when it is closed or dropped; `report` has the report once it is exhausted. `state_dict()` says
        where it is, `load_state_dict()` goes on from there.

    Raises:
        OptionError: An option has a value that it cannot have.
        FastpackError: As in `pack_files`; while iterating, what concerns the data.

    Examples:
        >>> import fastpack
        >>> stream = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
        >>> table = next(stream)
        >>> state = stream.state_dict()
        >>> rest = sum(table.num_rows for table in stream)
        >>> again = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
        >>> again.load_state_dict(state)
        >>> sum(table.num_rows for table in again) == rest
        True
    """
    return run(
        {
            "files": files,
            "tokenizer": tokenizer,
            "max_length": max_length,
            "strategy": strategy,
            "overlong": overlong,
            "truncation_side": truncation_side,
            "drop_last": drop_last,
            "shuffle": shuffle,
            "max_documents_per_pack": max_documents_per_pack,
            "align_documents_to": align_documents_to,
            "seed": seed,
            "pad_to": pad_to,
            "padding_side": padding_side,
            "pad_token_id": pad_token_id,
            "shift_labels": shift_labels,
            "columns": columns,
            "train_on": train_on,
            "train_on_eos": train_on_eos,
            "eos": eos,
            "bos": bos,
            "chat_template": chat_template,
            "chat_template_kwargs": chat_template_kwargs,
            "template_engine": template_engine,
            "now": now,
            "revision": revision,
            "token": token,
            "sources": sources,
            "recursive": recursive,
            "shape": shape,
            "fields": fields,
            "prompt": prompt,
            "examples": examples,
            "separator": separator,
            "filter": filter,
            "filter_fingerprint": filter_fingerprint,
            "map": map,
            "map_fingerprint": map_fingerprint,
            "on_bad_record": on_bad_record,
            "max_lost": max_lost,
            "threads": threads,
            "verify": verify,
            "progress": progress,
            "batch_size": batch_size,
            "open_packs": open_packs,
            "weights": weights,
            "weight_unit": weight_unit,
            "on_exhausted": on_exhausted,
            "epochs": epochs,
            "max_steps": max_steps,
            "rank": rank,
            "world_size": world_size,
            "lanes": lanes,
        }
    )

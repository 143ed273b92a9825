"""The options of reading: the records, and the meaning of their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Final

from fastpack.arguments.checks import check_choice, check_switch, check_type
from fastpack.options.function import FUNCTION
from fastpack.options.option import (
    FILE_CALLS,
    MODEL,
    ROW_CALLS,
    RUN,
    TOKENIZING_CALLS,
    TRAINING_CALLS,
    CallDifferences,
    Flag,
    Option,
)
from fastpack.options.value import KIND, Value, as_value, from_table, option_field
from fastpack.types import Examples, Fields, ImageChoice, JsonValue, Part, Prompt, Shape, StrPath

__all__ = ["RECORD_OPTIONS", "Images", "Reading"]

_EMBED: Final = "embed"
"""The word for pictures whose bytes are in the rows."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Images(Value):
    """Pictures of conversations: `Reading(images="reference")` is `Reading(images=Images())`.

    The tokenizer is a model folder with its processor, or a live processor of `transformers`. Of each picture only the
    header is read. Rows have a column `images` that says where each picture lies, and the columns that the processor
    returns for each token, such as `mm_token_type_ids`.

    Args:
        embed: Whether the column `images` also holds the bytes of each picture, so that training needs nothing but the
            rows: `Reading(images="embed")` is `Reading(images=Images(embed=True))`.
        fetch: Whether pictures on web servers (`http://`, `https://`) are fetched. Those in stores (`s3://`, `gs://`, `az://`,
            `hf://`) are, with the options of `storage`.
        folder: Where relative paths of pictures begin; the folder of the file that names them if not given.
        processor_kwargs: Options of the image processor by its own names, such as `size`.
        max_images_per_pack: The most pictures of a row; any number if not given.
        max_image_tokens_per_pack: The most tokens of pictures in a row, which bound the work of the model's vision part.
            What becomes of a document with more is said by `overlong`.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Images(processor_kwargs={"do_pan_and_scan": True})
        Images(processor_kwargs={'do_pan_and_scan': True})
    """

    option: ClassVar[str] = "reading.images"
    kind: ClassVar[str] = "reference"

    embed: bool = False
    fetch: bool = False
    folder: StrPath | None = option_field(None, path="always")
    processor_kwargs: Mapping[str, JsonValue] | None = None
    max_images_per_pack: int | None = None
    max_image_tokens_per_pack: int | None = None

    def check(self) -> None:
        """Refuses what a field cannot be, by the name of the field."""
        check_switch("reading.images.embed", self.embed)
        check_switch("reading.images.fetch", self.fetch)
        wanted = "a dict with names as keys"
        check_type("reading.images.processor_kwargs", self.processor_kwargs, (Mapping, type(None)), wanted)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Reading(Value):
    """The shape and the reading of records: `reading="text"` is `reading=Reading("text")`.

    Args:
        shape: The shape of the records: `conversations`, `prompt_completion`, `instruction`, `question_answer`, `text` or
            `tokens`; `preference` or `unpaired_preference` for the objective `preference`; also `prompt` for
            `generation`, and `labelled_text` or `labelled_pair` for `classification` and `multi_label`. Found for each
            file by its first records if not given.
        fields: The fields that hold the parts of a record, where the usual ones do not, such as
            `{"question": "query", "answer": "solution"}`.
        prompt: How requests that are no conversations become texts: `alpaca`, `chatml`, `vicuna`, one of the prompts for
            mathematics (`qa`, `wizardmath-cot`, `deepseekmath`, `deepseekmath-tool`, `xwinmath`, `mammoth2-cot`,
            `llama3-math`), a text with places such as `{instruction}`, a dict of parts, or a file of either. If not
            given, instructions and questions become a conversation for the chat template, or are put as `alpaca` has
            them where there is none; a prompt and its completion are joined as they are.
        examples: Requests with their answers that stand before each request, and are not trained.
        separator: The text between the documents of a `.txt` or `.md` file; each is one document if not given.
        images: What becomes of pictures in conversations: `reference` packs them, with a column that says where they lie;
            `embed` puts their bytes into that column too; a record with a picture is a bad one if not given. An `Images`
            says where paths begin, and has options of the processor.
        recursive: Whether the folders inside a folder are read too.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Reading(fields={"question": "query"}, prompt="alpaca")
        Reading(fields={'question': 'query'}, prompt='alpaca')
    """

    option: ClassVar[str] = "reading"
    kind: ClassVar[str] = "reading"
    plain: ClassVar[str] = "shape"

    shape: Shape | None = None
    _: dataclasses.KW_ONLY
    fields: Fields | None = None
    prompt: Prompt | None = option_field(None, path="exists", without_tokenizer=())
    examples: Examples | None = option_field(None, without_tokenizer=())
    separator: str | None = option_field(None, calls=FILE_CALLS)
    images: ImageChoice | Images | None = option_field(None, objectives=("causal",))
    recursive: bool = option_field(False, calls=FILE_CALLS)

    def check(self) -> None:
        """Refuses words that are none; the rest is known with the files."""
        object.__setattr__(self, "images", _images_of(self.images))
        self.check_words()
        check_switch("reading.recursive", self.recursive)
        if isinstance(self.fields, Mapping):
            for part in self.fields:
                check_choice("reading.fields", part, Part)


def _images_of(value: object) -> object:
    """The pictures that a word, a table of TOML or an object of JSON stands for; any other value is returned unchanged."""
    kinds = {Images.kind: Images}
    if isinstance(value, Mapping):
        if value.get(KIND) == _EMBED:
            value = {"embed": True, **value, KIND: Images.kind}
        return from_table(Images.option, value, kinds)
    return Images(embed=True) if value == _EMBED else as_value(Images.option, value, kinds)


RECORD_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "files",
        "StrPath | Iterable[StrPath | Source] | None",
        None,
        FILE_CALLS,
        (
            "Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or a "
            "list of these, or of dicts: a `path`, with a `shape`, `fields`, `prompt` and `separator` of its own if "
            "needed, a `limit` of records, and a number of times to `repeat` them. A folder's files are read in "
            "the order of their paths. They may lie in remote storage (`s3://`, `gs://`, `az://`, `https://`, "
            "`hf://datasets/ORG/NAME`)."
        ),
        differs={
            **dict.fromkeys(
                ("pack_files", "pack_dir"),
                CallDifferences(
                    type="StrPath | Iterable[StrPath | Source] | NamedSources | None",
                    doc=(
                        "Files of records or text: a path, a folder, a glob, a brace list such as `part-{00..99}.jsonl`, or a "
                        "list of these, or of dicts: a `path`, with a `shape`, `fields`, `prompt` and `separator` of "
                        "its own if needed, a `limit` of records, a number of times to `repeat` them, and a "
                        "`fraction` of them to draw; or a dict of such sources by their names. A folder's files "
                        "are read in the order of their paths. They may lie in remote storage (`s3://`, `gs://`, `az://`, "
                        "`https://`, `hf://datasets/ORG/NAME`)."
                    ),
                ),
            ),
            "stream": CallDifferences(
                type="StrPath | Iterable[StrPath | Source] | Records | NamedSources | None",
                doc=(
                    "Files as in `pack_files`; or a source of records that begins anew for each epoch: a function that returns an iterator of "
                    "them, an object whose `__iter__` starts anew, or a data set of `datasets`; or a dict of sources by their "
                    "names, each as one of these or as a dict in the list of `pack_files`, which may hold `records` in place of a `path`, and "
                    "the `fingerprint` that names them."
                ),
            ),
        },
        path="always",
    ),
    Option(
        "reading",
        "Shape | Reading | None",
        None,
        TOKENIZING_CALLS,
        (
            "The shape of the records, such as `conversations` or `text`; found for each file by its first records if not given. "
            "A `Reading` has names of fields, a prompt, examples and a separator of texts too, packs pictures, and reads "
            "folders inside folders."
        ),
        flag=Flag(
            "--reading",
            "what the records are, if not to be found out",
            words="Shape",
            unset="found for each file",
        ),
        kinds={Reading.kind: Reading},
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
            "A function that changes the chosen records: it takes a `pyarrow.RecordBatch` of them "
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
            'The share of the documents, and of their tokens, that may be lost, such as `"0.1%"` or 0.001; a run that '
            "loses more fails before it writes its output, with reasons and places. No limit if not given."
        ),
        group=RUN,
        differs={
            "stream": CallDifferences(
                doc="As in `pack_files`, but a stream fails at its end, when all is counted."
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

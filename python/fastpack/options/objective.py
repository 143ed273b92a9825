"""The training objectives, each a value with its own options, and the option that takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence  # noqa: TC003  the types of fields are looked at
from typing import TYPE_CHECKING, ClassVar, Final

from fastpack import _fastpack
from fastpack.arguments.checks import shown
from fastpack.errors import OptionError, OptionTypeError
from fastpack.options.function import Function, check_fingerprint, function_of
from fastpack.options.option import OBJECTIVE, ROW_CALLS, Flag, Option
from fastpack.options.value import Kind, Value, chosen, fields_of, parts_of
from fastpack.types import DocumentFunction, PreferenceForm  # noqa: TC001  the types of fields are looked at

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "KINDS",
    "OBJECTIVE_OPTIONS",
    "CausalLM",
    "Classification",
    "Custom",
    "FillInMiddle",
    "Generation",
    "MaskedLM",
    "MultiLabel",
    "Objective",
    "Preference",
    "SpanCorruption",
    "objective_of",
]


class Objective(Value):
    """The base of the training objectives."""

    __slots__ = ()

    option = "objective"

    def check(self) -> None:
        """Refuses what a field cannot be."""
        _fastpack.ObjectiveOptions(self)
        for field in fields_of([type(self)]):
            if float in parts_of(field.type):
                value = getattr(self, field.name)
                self._check_numbers(field.name, value if isinstance(value, tuple) else (value,))

    def _check_numbers(self, name: str, values: tuple[object, ...]) -> None:
        """Refuses what `float` would make a number of, such as a text."""
        for each in values:
            if each is not None and (isinstance(each, bool) or not isinstance(each, (int, float))):
                message = f"must be a number, not `{shown(each)}`"
                raise OptionTypeError(message, f"{self.option}.{name}")


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CausalLM(Objective):
    """Each token is predicted from those before it: `objective="causal"`.

    Args:
        shift_labels: Whether each label stands one place before its token, where it is predicted; for trainers that do
            not shift labels themselves, as those of `transformers` and TRL do.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.CausalLM(shift_labels=True)
        CausalLM(shift_labels=True)
    """

    kind: ClassVar[str] = "causal"

    shift_labels: bool = False


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class MaskedLM(Objective):
    """Masked tokens are predicted from those on both sides, as BERT does: `objective="mlm"`.

    It learns from whole documents. The names are those of `DataCollatorForLanguageModeling` of transformers.

    Args:
        probability: The probability of a token to be chosen. Special tokens and padding never are.
        mask_replace_prob: The probability of a chosen token to become the tokenizer's `mask_token`.
        random_replace_prob: The probability of a chosen token to become a random token; other chosen tokens stay as
            they are.
        whole_words: Whether all tokens of a word are chosen together, with the probability of one: `##` goes on with
            a word in WordPiece, white space begins one in others.
        copies: How many copies of the documents there are, one after the other, each drawn anew. The report counts
            every copy. A stream has `epochs` for that.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.MaskedLM(probability=0.2)
        MaskedLM(probability=0.2)
    """

    kind: ClassVar[str] = "mlm"

    probability: float = 0.15
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1
    whole_words: bool = False
    copies: int = 1


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SpanCorruption(Objective):
    """Spans of tokens are replaced by sentinels and predicted, as T5 does: `objective="span"`.

    It learns from whole documents. The names are those of T5.

    Args:
        noise_density: The share of the tokens of a document that are in spans. Of several shares, each document takes
            one at random, with the `mean_noise_span_length` in the same place.
        mean_noise_span_length: The mean length of a span in tokens, or one for each of `noise_density`.
        mean_gap_length: If given, `noise_density` is not heeded: gaps of this mean length and spans of
            `mean_noise_span_length` follow each other, each drawn around its mean with a standard deviation of 1 and
            cut down to whole tokens.
        max_target_length: Tokens that the targets of a row hold at most; no limit if not given.
        copies: How many copies of the documents there are, one after the other, each drawn anew. The report counts
            every copy. A stream has `epochs` for that.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.SpanCorruption(noise_density=[0.15, 0.5], mean_noise_span_length=[3, 32])
        SpanCorruption(noise_density=(0.15, 0.5), mean_noise_span_length=(3, 32))
    """

    kind: ClassVar[str] = "span"

    noise_density: float | Sequence[float] = 0.15
    mean_noise_span_length: float | Sequence[float] = 3.0
    mean_gap_length: float | None = None
    max_target_length: int | None = None
    copies: int = 1


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class FillInMiddle(Objective):
    """The middle of a document is predicted from what stands around it: `objective="fim"`.

    It learns from whole documents.

    Args:
        rate: The probability of a document to be cut in three: prefix, suffix, middle. Others stay as they are.
        spm_rate: The probability of such a document to have its suffix before its prefix.
        tokens: The tokens before prefix, suffix and middle; if not given, those of StarCoder, Qwen, CodeGemma,
            CodeLlama or DeepSeek that the tokenizer has.
        copies: How many copies of the documents there are, one after the other, each drawn anew. The report counts
            every copy. A stream has `epochs` for that.
        shift_labels: As in `CausalLM`.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.FillInMiddle(rate=0.9)
        FillInMiddle(rate=0.9)
    """

    kind: ClassVar[str] = "fim"

    rate: float = 0.5
    spm_rate: float = 0.5
    tokens: Sequence[str] | None = None
    copies: int = 1
    shift_labels: bool = False


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Preference(Objective):
    """Which of two answers to a prompt is better, or whether one is good: `objective="preference"`.

    Rows hold one document each, in input order.

    Args:
        form: The rows, as the trainers of TRL read them: `dpo`, `prompt_ids` with `chosen_ids` and `rejected_ids`;
            `reward`, the last two alone, each with the prompt; `kto`, `prompt_ids` with `completion_ids` and a
            `label`, true for a good answer.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Preference(form="kto")
        Preference(form='kto')
    """

    kind: ClassVar[str] = "preference"

    form: PreferenceForm = "dpo"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Generation(Objective):
    """Nothing is learned from the rows, which are prompts to be answered: `objective="generation"`.

    Rows hold one document each, in input order.

    Examples:
        >>> import fastpack
        >>> fastpack.Generation()
        Generation()
    """

    kind: ClassVar[str] = "generation"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Classification(Objective):
    """The class of a text, or of a pair of texts: `objective="classification"`.

    Rows hold one document each, in input order.

    Args:
        classes: The names of the classes in the order of their numbers, or how many there are. If not given, labels
            are numbers, or names that are numbered in their order once all records are read. Streams, groups and
            `per_file` need it for names.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Classification(["no", "yes"])
        Classification(classes=('no', 'yes'))
    """

    kind: ClassVar[str] = "classification"

    classes: Sequence[str] | int | None = None


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class MultiLabel(Objective):
    """The classes of a text, or of a pair of texts: `objective="multi_label"`.

    Rows hold one document each, in input order.

    Args:
        classes: As in `Classification`.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.MultiLabel(3)
        MultiLabel(classes=3)
    """

    kind: ClassVar[str] = "multi_label"

    classes: Sequence[str] | int | None = None


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Custom(Objective):
    """A function of the caller makes documents of documents: `objective=Custom(function)`.

    Args:
        function: It takes a `pyarrow.RecordBatch` of documents: lists of `input_ids`, of `labels` (-100 where nothing
            is trained) and of `loss_weights`, and a `key`, a number of 64 bits that is the same for the same ids. It
            returns one with as many rows: lists of `input_ids` and `labels`, of `loss_weights` and `token_type_ids`
            if wanted, as long as the ids. What it returns for a document must depend on that document alone. It is
            called in any order, on the thread of the call. Or a `Function` of it. `repack` alone needs none: it packs what the function made.
        fingerprint: A name for the function, to be changed with it, so that the job can be resumed.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> def unchanged(documents):
        ...     return documents.select(["input_ids", "labels"])
        >>> fastpack.Custom(unchanged, fingerprint="v1").fingerprint
        'v1'
    """

    kind: ClassVar[str] = "custom"

    function: DocumentFunction | Function[dict[str, object]] | None = None
    fingerprint: str | None = None

    def check(self) -> None:
        """Refuses what is no function, and what names none."""
        function = function_of("objective.function", self.function)
        try:
            check_fingerprint(self.fingerprint)
        except OptionError as refused:
            raise type(refused)(refused.reason, "objective.fingerprint") from None
        if self.fingerprint is not None and (function is None or function.fingerprint is not None):
            message = "needs `objective.function`, a function without a fingerprint of its own"
            raise OptionError(message, "objective.fingerprint")

    def named(self) -> Function[object] | None:
        """The function with its name."""
        function = function_of("objective.function", self.function)
        if function is None or self.fingerprint is None:
            return function
        return dataclasses.replace(function, fingerprint=self.fingerprint)


KINDS: Final[Mapping[str, Kind]] = {
    kind.kind: kind
    for kind in (
        CausalLM,
        MaskedLM,
        SpanCorruption,
        FillInMiddle,
        Preference,
        Generation,
        Classification,
        MultiLabel,
        Custom,
    )
}
"""The objectives by their words."""


def objective_of(arguments: Mapping[str, object]) -> Objective:
    """The training objective of a call."""
    value = chosen("objective", arguments.get("objective", "causal"), KINDS)
    assert isinstance(value, Objective)  # noqa: S101  all kinds are
    return value


OBJECTIVE_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "objective",
        "ObjectiveName | Objective",
        "causal",
        ROW_CALLS,
        (
            "What a model learns from the rows: `causal`, to predict each token from those before it; `mlm`, to predict "
            "masked tokens from those on both sides, as BERT; `span`, to predict spans that sentinels stand for, as T5; "
            "`fim`, to fill in the middle of a document; these three learn from whole documents. `preference`: which of "
            "two answers to a prompt is better, or whether one is good. `generation`: nothing, rows are prompts to be "
            "answered. `classification`: the class of a text or of a pair of texts; `multi_label`: its classes. Rows of these "
            "four hold one document each, in input order. `custom`: what a function makes of documents. A word stands for "
            "the value with its defaults; `MaskedLM(probability=0.2)` and the others have options of their own."
        ),
        group=OBJECTIVE,
        flag=Flag("--objective", "what a model learns from the rows", words="ObjectiveName", common=True),
        kinds=KINDS,
    ),
)

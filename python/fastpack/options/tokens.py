"""The options that decide the tokens, and the trained ones among them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar, Final

from fastpack.arguments.checks import check_choice, check_switch, check_type, shown
from fastpack.errors import OptionError, OptionTypeError
from fastpack.options.option import (
    ANSWERED_OBJECTIVES,
    MODEL,
    RUN,
    RUNNING_CALLS,
    TOKENIZING_CALLS,
    CallDifferences,
    Flag,
    Option,
)
from fastpack.options.train_on import TrainOn
from fastpack.options.value import Value, option_field
from fastpack.types import (
    Bos,
    Eos,
    JsonValue,
    SpecialInText,
    StrPath,
    TemplateEngine,
    TrainOnEos,
)

__all__ = ["TOKEN_OPTIONS", "ChatTemplate", "SpecialTokens"]


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SpecialTokens(Value):
    """The special tokens of documents: those around them, those in their texts, and which ends are trained.

    Args:
        eos: Whether the end-of-text token is appended where a document does not end with it, white space aside: `auto`
            does so for text and for requests that a prompt renders, and leaves conversations as their template
            ends them; `True` and `False` hold for both.
        bos: Whether a document begins with the token that begins a text: `auto` leaves it to tokenizer and template,
            `True` adds it where it is missing, `False` has the tokenizer add none. A text that begins with it gets no
            second one.
        in_text: What happens to a control token of the tokenizer, such as `<|im_end|>`, that stands in a text of a user
            or a tool: `encode` makes that token of it, as `transformers` does; `split` encodes its characters as other
            text, as `sanitize_control_tokens` of `transformers` does; `error` refuses the record.
        train_on_eos: Which tokens that end a trained turn are trained: of every `turn`, of the `last`, or `none`; those
            that the chat template marks if not given. `none` holds for the end of a text too, and for that of ids
            without labels.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.SpecialTokens(eos=True, in_text="split")
        SpecialTokens(eos=True, in_text='split')
    """

    option: ClassVar[str] = "special_tokens"
    kind: ClassVar[str] = "special_tokens"

    eos: Eos = option_field("auto", objectives=(*ANSWERED_OBJECTIVES,), without_tokenizer=(False,))
    bos: Bos = option_field("auto", without_tokenizer=(False,))
    in_text: SpecialInText = option_field("encode", without_tokenizer=())
    train_on_eos: TrainOnEos | None = option_field(
        None, objectives=("causal", "custom"), without_tokenizer=()
    )


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ChatTemplate(Value):
    r"""A chat template and how it is rendered: `chat_template="chat.jinja"` is `chat_template=ChatTemplate("chat.jinja")`.

    Args:
        source: A Jinja text, the path of one, or the name of one of the tokenizer's templates; the tokenizer's own if not
            given.
        variables: Variables for the template; those of a record win over them.
        engine: What renders a template, or a value in it, that is not known to render as in `transformers`: `native`
            refuses it by name; `python` lets `transformers` render it, in processes of its own, which is much slower, and
            says so in the report.
        now: What templates see as the time of day, or its text, such as `2026-01-31T12:00`; the time of the call if not
            given, which `pack_dir` keeps on resuming.
        decode_arguments: Whether arguments of tool calls that are JSON text are decoded to objects, where the template
            encodes the text a second time (`"{\"city\": \"Rome\"}"`) or refuses a text. Without it they are rendered as
            `transformers` does.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.ChatTemplate(variables={"enable_thinking": False})
        ChatTemplate(variables={'enable_thinking': False})
    """

    option: ClassVar[str] = "chat_template"
    kind: ClassVar[str] = "chat_template"
    plain: ClassVar[str] = "source"

    source: StrPath | None = option_field(None, path="exists", without_tokenizer=())
    _: dataclasses.KW_ONLY
    variables: Mapping[str, JsonValue] | None = option_field(None, without_tokenizer=())
    engine: TemplateEngine = option_field("native", without_tokenizer=())
    now: datetime | None = None
    decode_arguments: bool = option_field(False, without_tokenizer=())

    def check(self) -> None:
        """Refuses what a field cannot be, by the name of the field."""
        if not isinstance(self.source, (str, os.PathLike, type(None))):
            message = (
                "must be a Jinja text, a file, or the name of one of the tokenizer's templates, not "
                f"`{shown(self.source)}`"
            )
            raise OptionTypeError(message, "chat_template")
        check_type(
            "chat_template.variables", self.variables, (Mapping, type(None)), "a dict with names as keys"
        )
        check_choice("chat_template.engine", self.engine, TemplateEngine)
        if isinstance(self.now, str):
            object.__setattr__(self, "now", _moment(self.now))
        wanted = "a datetime.datetime such as datetime(2026, 1, 31, 12)"
        check_type("chat_template.now", self.now, (datetime, type(None)), wanted)
        check_switch("chat_template.decode_arguments", self.decode_arguments)


def _moment(text: str) -> datetime:
    """The time that a text says."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        message = f"`{shown(text)}` is no time such as 2026-01-31T12:00"
        raise OptionError(message, "chat_template.now") from None


TOKEN_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "tokenizer",
        "TokenizerArgument | Tokenizer | None",
        None,
        RUNNING_CALLS,
        (
            "A `Tokenizer`, or the source of one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of "
            "`transformers` or `tokenizers`. Records that are ids need none."
        ),
        group=MODEL,
        differs={
            "repack": CallDifferences(
                doc="The tokenizer that made the tokens, as in `pack_files`; needed by objectives that put tokens of their own into rows."
            )
        },
        flag=Flag(
            "-t --tokenizer", "a folder, a tokenizer.json, or a name on the hub; ids need none", unset="none"
        ),
        path="exists",
    ),
    Option(
        "train_on",
        "TrainedTokens | TrainOn",
        "auto",
        TOKENIZING_CALLS,
        (
            "Which tokens carry a label: `assistant` turns, the `completion` of a request, "
            "`all`; or `auto`, which is the first for conversations, the third for requests with answers and `all` "
            "for text. A message may say for itself: `train`, true or false, or `weight`. A `TrainOn` says which roles, "
            "and which parts of turns."
        ),
        group=RUN,
        flag=Flag(
            "--train-on",
            "tokens that carry a label; as JSON, the roles and parts of a TrainOn",
            words="TrainedTokens",
            type="train_on",
            common=True,
        ),
        kinds={TrainOn.kind: TrainOn},
        objectives=("causal", "custom"),
    ),
    Option(
        "turns",
        "Turns",
        "auto",
        TOKENIZING_CALLS,
        (
            "The documents that a conversation becomes: `whole` makes one and trains every turn as it is written there; "
            "`last` trains the last turn alone; `each` makes one a turn; `auto` makes the fewest in which each turn "
            "comes after exactly the text that the model sees there: one, unless the chat template writes earlier turns "
            "otherwise once others follow."
        ),
        group=RUN,
        flag=Flag("--turns", "documents that a conversation becomes", words="Turns"),
        objectives=("causal", "custom"),
        without_tokenizer=(None,),
    ),
    Option(
        "special_tokens",
        "SpecialTokens | None",
        None,
        TOKENIZING_CALLS,
        (
            "A `SpecialTokens`: whether documents begin and end with special tokens, what happens to those that stand in "
            "texts, and which ends of turns are trained."
        ),
        group=RUN,
        flag=Flag("--special-tokens", "", holds=True),
        kinds={SpecialTokens.kind: SpecialTokens},
    ),
    Option(
        "chat_template",
        "StrPath | ChatTemplate | None",
        None,
        TOKENIZING_CALLS,
        (
            "A Jinja text, the path of one, or the name of one of the tokenizer's templates; the tokenizer's own if "
            "not given. A `ChatTemplate` has variables, an engine and the time of day too."
        ),
        group=MODEL,
        flag=Flag(
            "--chat-template",
            "a Jinja text, a file, or a name that the tokenizer knows",
            metavar="TEMPLATE",
            unset="the tokenizer's own",
        ),
        kinds={ChatTemplate.kind: ChatTemplate},
    ),
)

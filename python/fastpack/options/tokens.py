"""The options that decide the tokens, and the trained ones among them."""

from __future__ import annotations

from typing import Final

from fastpack.options.option import (
    ANSWERED_OBJECTIVES,
    MODEL,
    RUN,
    RUNNING_CALLS,
    TOKENIZING_CALLS,
    TRAINING_CALLS,
    Differs,
    Flag,
    Option,
)

__all__ = ["TOKEN_OPTIONS"]

TOKEN_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "tokenizer",
        "TokenizerArgument | Tokenizer | None",
        None,
        RUNNING_CALLS,
        (
            "A `Tokenizer`, or what makes one: a folder, a `tokenizer.json`, a hub name, or a tokenizer of "
            "`transformers` or `tokenizers`. Records that are ids need none."
        ),
        group=MODEL,
        differs={
            "repack": Differs(
                doc="The tokenizer that made the tokens, as in `pack_files`; needed by objectives that put tokens of their own into rows."
            )
        },
        flag=Flag(
            "-t --tokenizer", "a folder, a tokenizer.json, or a name on the hub; ids need none", unset="none"
        ),
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
            "stands behind exactly what the model sees there: one, unless the chat template writes earlier turns "
            "otherwise once others follow."
        ),
        group=RUN,
        flag=Flag("--turns", "documents that a conversation becomes", words="Turns"),
        objectives=("causal", "custom"),
    ),
    Option(
        "train_on_eos",
        "TrainOnEos | None",
        None,
        TOKENIZING_CALLS,
        (
            "Which tokens that end a trained turn are trained: of every `turn`, of the `last`, or `none`; those that "
            "the chat template marks if not given. `none` holds for the end of a text too, and for that of ids "
            "without labels."
        ),
        group=RUN,
        flag=Flag(
            "--train-on-eos",
            "ends of trained turns that carry one",
            words="TrainOnEos",
            unset="those that the template marks",
        ),
        objectives=("causal", "custom"),
    ),
    Option(
        "special_in_text",
        "SpecialInText",
        "encode",
        TOKENIZING_CALLS,
        (
            "What happens to a control token of the tokenizer, such as `<|im_end|>`, that stands in a text of a user or "
            "a tool: `encode` makes that token of it, as `transformers` does; `split` encodes its characters as other "
            "text, as `sanitize_control_tokens` of `transformers` does; `error` refuses the record."
        ),
        group=RUN,
        flag=Flag("--special-in-text", "control tokens in texts of users and tools", words="SpecialInText"),
    ),
    Option(
        "decode_arguments",
        "bool",
        False,
        TOKENIZING_CALLS,
        (
            "Whether arguments of tool calls that are JSON text are decoded to objects, where the chat template encodes "
            'the text a second time (`"{\\"city\\": \\"Rome\\"}"`). Without it they are rendered as `transformers` does.'
        ),
        group=RUN,
        flag=Flag(
            "--decode-arguments", "decode JSON text in arguments that the template encodes twice", switch=True
        ),
    ),
    Option(
        "eos",
        "Eos",
        "auto",
        TOKENIZING_CALLS,
        (
            "Whether the end-of-text token is appended where a document does not end with it, white space aside: `auto` "
            "does so for text and for requests put into words by a prompt, and leaves conversations as their template "
            "ends them; `True` and `False` hold for both."
        ),
        group=RUN,
        flag=Flag(
            "--eos", "whether documents end with the end-of-text token: auto, yes, no", type="auto_yes_no"
        ),
        objectives=ANSWERED_OBJECTIVES,
    ),
    Option(
        "bos",
        "Bos",
        "auto",
        TRAINING_CALLS,
        (
            "Whether a document begins with the token that begins a text: `auto` leaves it to tokenizer and template, "
            "`True` adds it where it is missing, `False` has the tokenizer add none. A text that begins with it gets no "
            "second one."
        ),
        group=RUN,
        flag=Flag(
            "--bos",
            "whether documents begin with the token that begins a text: auto, yes, no",
            type="auto_yes_no",
        ),
    ),
    Option(
        "chat_template",
        "StrPath | None",
        None,
        TOKENIZING_CALLS,
        (
            "A Jinja text, the path of one, or the name of one of the tokenizer's templates; the tokenizer's own if "
            "not given."
        ),
        group=MODEL,
        flag=Flag(
            "--chat-template",
            "a Jinja text, a file, or a name that the tokenizer knows",
            metavar="TEMPLATE",
            unset="the tokenizer's own",
        ),
    ),
    Option(
        "chat_template_kwargs",
        "Mapping[str, JsonValue] | None",
        None,
        TOKENIZING_CALLS,
        "Variables for the chat template; those of a record win over them.",
        group=MODEL,
        flag=Flag(
            "--chat-template-kwargs",
            "variables for the chat template",
            metavar="JSON",
            type="json_object",
            unset="none",
        ),
    ),
    Option(
        "template_engine",
        "TemplateEngine",
        "native",
        TOKENIZING_CALLS,
        (
            "What renders a chat template, or a value in it, that is not known to render as in `transformers`: "
            "`native` refuses it by name; `python` lets `transformers` render it, in processes of its own, which is "
            "much slower, and says so in the report."
        ),
        group=MODEL,
        flag=Flag("--template-engine", "what renders templates that are refused", words="TemplateEngine"),
    ),
    Option(
        "now",
        "datetime | None",
        None,
        TOKENIZING_CALLS,
        "What templates see as the time of day; the time of the call if not given.",
        group=RUN,
        differs={
            "pack_dir": Differs(
                doc="What templates see as the time of day; the time of the first call if not given, kept on resuming."
            ),
        },
        flag=Flag(
            "--now",
            "the time that templates see, such as 2026-01-31T12:00",
            metavar="TIME",
            type="moment",
            unset="the time of the run",
        ),
    ),
    Option(
        "revision",
        "str | None",
        None,
        TOKENIZING_CALLS,
        "The branch, tag or commit of a hub name; refused for a tokenizer on the disk or in memory, which has none.",
        group=MODEL,
        flag=Flag("--revision", "branch, tag or commit of a hub name", unset="main"),
    ),
    Option(
        "token",
        "str | bool | None",
        None,
        TOKENIZING_CALLS,
        "The access token for a hub name.",
        group=MODEL,
        flag=Flag(
            "--token",
            "access token for a hub name; better given as $HF_TOKEN",
            unset="$HF_TOKEN, if it is set",
        ),
    ),
)

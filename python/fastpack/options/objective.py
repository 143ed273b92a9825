"""The options of training objectives."""

from __future__ import annotations

from typing import Final

from fastpack.options.option import (
    MODEL,
    OBJECTIVE,
    PACKING,
    ROW_CALLS,
    RUN,
    TRAINING_CALLS,
    Differs,
    Flag,
    Option,
)

__all__ = ["OBJECTIVE_OPTIONS"]

OBJECTIVE_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "objective",
        "Objective",
        "causal",
        ROW_CALLS,
        (
            "What a model learns from the rows: `causal`, to predict each token from those before it; `mlm`, to predict "
            "masked tokens from those on both sides, as BERT; `span`, to predict spans that sentinels stand for, as T5; "
            "`fim`, to fill in the middle of a document; these three learn from whole documents. `preference`: which of "
            "two answers to a prompt is better, or whether one is good. `generation`: nothing, rows are prompts to be "
            "answered. `classification`: the class of a text or of a pair of texts; `multi_label`: its classes. Rows of these "
            "four hold one document each, in input order. `function`: what the `objective_function` makes of documents."
        ),
        group=OBJECTIVE,
        flag=Flag("--objective", "what a model learns from the rows", words="Objective"),
    ),
    Option(
        "epochs",
        "int",
        1,
        ROW_CALLS,
        (
            "How many copies of the documents there are, one after the other, each drawn anew. The report counts every "
            "copy."
        ),
        group=RUN,
        differs={
            "stream": Differs(
                type="int | None",
                doc=(
                    "How often the input is read; `None` is without end. Several ranks that read it so often need "
                    "`cache_dir` or `all_reduce` to end at the same step."
                ),
            )
        },
        flag=Flag(
            "--epochs",
            "copies of the documents, each drawn anew; of a stream: how often the input is read, 0 is without end",
            metavar="N",
            type="count_or_none",
        ),
        objectives=("mlm", "span", "fim"),
    ),
    Option(
        "mlm_probability",
        "float",
        0.15,
        ROW_CALLS,
        "The probability of a token to be chosen for `mlm`. Special tokens and padding never are.",
        group=OBJECTIVE,
        flag=Flag("--mlm-probability", "probability of a token to be chosen", metavar="SHARE"),
        objectives=("mlm",),
    ),
    Option(
        "mask_replace_prob",
        "float",
        0.8,
        ROW_CALLS,
        "The probability of a chosen token to become the tokenizer's `mask_token`.",
        group=OBJECTIVE,
        flag=Flag("--mask-replace-prob", "probability of it to become the mask token", metavar="SHARE"),
        objectives=("mlm",),
    ),
    Option(
        "random_replace_prob",
        "float",
        0.1,
        ROW_CALLS,
        "The probability of a chosen token to become a random token; what is left of 1 stays as it is.",
        group=OBJECTIVE,
        flag=Flag("--random-replace-prob", "probability of it to become a random token", metavar="SHARE"),
        objectives=("mlm",),
    ),
    Option(
        "whole_word_mask",
        "bool",
        False,
        ROW_CALLS,
        (
            "Whether all tokens of a word are chosen together, with the probability of one: `##` goes on with a word in "
            "WordPiece, white space begins one in others."
        ),
        group=OBJECTIVE,
        flag=Flag("--whole-word-mask", "choose all tokens of a word together", switch=True),
        objectives=("mlm",),
    ),
    Option(
        "noise_density",
        "float | Sequence[float]",
        0.15,
        ROW_CALLS,
        (
            "The share of the tokens of a document that are in spans, for `span`. Of several shares, each document takes "
            "one at random, with the `mean_noise_span_length` in the same place."
        ),
        group=OBJECTIVE,
        flag=Flag(
            "--noise-density", "share of the tokens in spans, or several", metavar="SHARES", type="comma_list"
        ),
        objectives=("span",),
    ),
    Option(
        "mean_noise_span_length",
        "float | Sequence[float]",
        3.0,
        ROW_CALLS,
        "The mean length of a span in tokens, or one for each of `noise_density`.",
        group=OBJECTIVE,
        flag=Flag(
            "--mean-noise-span-length",
            "mean length of a span in tokens, or several",
            metavar="TOKENS",
            type="comma_list",
        ),
        objectives=("span",),
    ),
    Option(
        "mean_gap_length",
        "float | None",
        None,
        ROW_CALLS,
        (
            "If given, `noise_density` is not heeded: gaps of this mean length and spans of `mean_noise_span_length` follow "
            "each other, each drawn around its mean with a standard deviation of 1 and cut down to whole tokens."
        ),
        group=OBJECTIVE,
        flag=Flag(
            "--mean-gap-length",
            "mean length of the gaps between spans",
            metavar="TOKENS",
            unset="as --noise-density says",
        ),
        objectives=("span",),
    ),
    Option(
        "max_target_length",
        "int | None",
        None,
        ROW_CALLS,
        "Tokens that the targets of a row hold at most, for `span`; no limit if not given.",
        group=PACKING,
        flag=Flag(
            "--max-target-length",
            "tokens that the targets of a row hold at most",
            metavar="TOKENS",
            type="token_count",
            unset="no limit",
        ),
        objectives=("span",),
    ),
    Option(
        "fim_rate",
        "float",
        0.5,
        ROW_CALLS,
        "The probability of a document to be cut in three for `fim`: prefix, suffix, middle. Others stay as they are.",
        group=OBJECTIVE,
        flag=Flag("--fim-rate", "probability of a document to be cut in three", metavar="SHARE"),
        objectives=("fim",),
    ),
    Option(
        "fim_spm_rate",
        "float",
        0.5,
        ROW_CALLS,
        "The probability of such a document to have its suffix before its prefix.",
        group=OBJECTIVE,
        flag=Flag("--fim-spm-rate", "probability of it to have its suffix first", metavar="SHARE"),
        objectives=("fim",),
    ),
    Option(
        "fim_tokens",
        "Sequence[str] | None",
        None,
        ROW_CALLS,
        (
            "The tokens before prefix, suffix and middle; if not given, those of StarCoder, Qwen, CodeGemma, CodeLlama or "
            "DeepSeek that the tokenizer has."
        ),
        group=OBJECTIVE,
        flag=Flag(
            "--fim-tokens",
            "tokens before prefix, suffix and middle, separated by commas",
            metavar="TOKENS",
            type="comma_list",
            unset="the tokenizer's own",
        ),
        objectives=("fim",),
    ),
    Option(
        "preference_form",
        "PreferenceForm",
        "dpo",
        ROW_CALLS,
        (
            "The rows of `preference`, as the trainers of TRL read them: `dpo`, `prompt_ids` with `chosen_ids` and "
            "`rejected_ids`; `reward`, the last two alone, each with the prompt; `kto`, `prompt_ids` with "
            "`completion_ids` and a `label`, true for a good answer."
        ),
        group=OBJECTIVE,
        flag=Flag(
            "--preference-form", "rows of the objective preference, by trainer", words="PreferenceForm"
        ),
        objectives=("preference",),
    ),
    Option(
        "classes",
        "Sequence[str] | int | None",
        None,
        TRAINING_CALLS,
        (
            "The classes of `classification` and `multi_label`: their names in the order of their numbers, or how many there "
            "are. If not given, labels are numbers, or names that are numbered in their order once all records are read. Streams, "
            "groups and `per_file` need it for names."
        ),
        group=RUN,
        flag=Flag(
            "--classes",
            "names of the classes, separated by commas, or how many there are",
            metavar="NAMES",
            type="count_or_list",
            unset="labels are numbers, or names that are found",
        ),
        objectives=("classification", "multi_label"),
    ),
    Option(
        "objective_function",
        "DocumentFunction | None",
        None,
        TRAINING_CALLS,
        (
            "The function of the objective `function`. It takes a `pyarrow.RecordBatch` of documents: lists of `input_ids`, of "
            "`labels` (-100 where nothing is trained) and of `loss_weights`, and a `key`, a number of 64 bits that is the same for "
            "the same ids. It returns one with as many rows: lists of `input_ids` and `labels`, of `loss_weights` and "
            "`token_type_ids` if wanted, as long as the ids. What it returns for a document must depend on that document alone. "
            "It is called in any order, on the thread of this call."
        ),
        group=MODEL,
        flag=Flag(
            "--objective-function",
            "Python function of a pyarrow.RecordBatch that makes tokens and labels of documents",
            metavar="PLACE:NAME",
            type="function_at",
            unset="none",
        ),
        objectives=("function",),
    ),
    Option(
        "objective_function_fingerprint",
        "str | None",
        None,
        TRAINING_CALLS,
        "A name for `objective_function`, as `filter_fingerprint` is one for `filter`.",
        group=MODEL,
        flag=Flag(
            "--objective-function-fingerprint",
            "name for that function, to be changed with it, so that the job can be resumed",
            metavar="NAME",
            unset="none",
        ),
        objectives=("function",),
    ),
)

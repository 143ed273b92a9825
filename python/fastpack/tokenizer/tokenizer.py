"""`Tokenizer`: text to ids, exactly as Hugging Face gives them."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, overload

from fastpack import _fastpack
from fastpack.arguments.checks import check_switch, is_series, shown
from fastpack.arguments.failures import each_of
from fastpack.errors import OptionError, OptionTypeError, TokenizerError
from fastpack.options import OPTIONS
from fastpack.options.tokens import ChatTemplate
from fastpack.runtime.default_threads import available_threads
from fastpack.tokenizer.arguments import choose_template, load
from fastpack.tokenizer.call import (
    Frame,
    around,
    arranged,
    as_tensors,
    cut,
    cut_to,
    defaults,
    framed,
    padded_to,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.types import JsonValue, StrPath, Texts

__all__ = ["EncodedChat", "Tokenizer"]

# The defaults of `Tokenizer`, which are written only here.
_CACHE_SIZE: Final = "64MB"
_VERIFY: Final = 0


class EncodedChat(TypedDict, total=False):
    """The result of `Tokenizer.apply_chat_template`: a conversation as a run of fastpack encodes it."""

    input_ids: npt.NDArray[np.int32]
    assistant_masks: npt.NDArray[np.int32]


class Tokenizer:
    """A tokenizer, loaded once for any number of calls and threads.

    Every function that takes a tokenizer takes one of these; giving it a path does the same and loads it
    each time.

    Args:
        tokenizer: A folder or hub name, which means what `AutoTokenizer.from_pretrained` builds from it; the
            path of a bare `tokenizer.json`, which means itself and has no chat template; or a live
            `tokenizers.Tokenizer` or `transformers` tokenizer, whose truncation and padding are ignored.
        threads: Threads of `encode_batch`; as many as affinity and cgroup allow, shared among the ranks of
            this machine, if not given. Never changes the ids.
        cache_size: The most memory of the word caches: bytes, or a text such as `64MB`. Seven eighths are
            shared by all threads, and an eighth is each thread's own. Never changes the ids.
        revision: The branch, tag or commit of a hub name; refused for a tokenizer on the disk or in memory, which has none.
        token: The access token for a hub name; `True` for the stored one.

    Raises:
        TokenizerError: It cannot be used, or its class is for transformers to build, and transformers 5 is not installed.
        InputNotFoundError: It is neither here nor on the hub.

    Examples:
        >>> import fastpack
        >>> tokenizer = fastpack.Tokenizer("examples/tokenizer")
        >>> tokenizer.engine
        'compiled'
        >>> tokenizer.decode(tokenizer.encode("a river"))
        'a river'
    """

    def __init__(
        self,
        tokenizer: TokenizerArgument | Tokenizer,
        *,
        threads: int | None = None,
        cache_size: int | str = _CACHE_SIZE,
        revision: str | None = None,
        token: str | bool | None = None,
    ) -> None:
        """Loads it."""
        self._pretrained = pretrained(tokenizer, revision=revision, token=token)
        self._encoders = _fastpack.Encoders(self._pretrained, cache_size)
        self._frames: dict[tuple[bool, bool], Frame] = {}
        self._threads = available_threads() if threads is None else threads
        # A pickle is loaded from these again. It holds no access token.
        self._source = tokenizer
        self._options: _TokenizerState = {"threads": threads, "cache_size": cache_size, "revision": revision}

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from fastpack.report.display.notebook import tokenizer_fragment  # noqa: PLC0415  needed where it is shown

        return tokenizer_fragment(self)

    @property
    def engine(self) -> Literal["compiled", "reference"]:
        """The engine that makes the ids: `compiled`, fastpack's own, or `reference`, the Hugging Face crate."""
        return "compiled" if self._pretrained.engine_reason is None else "reference"

    @property
    def reason(self) -> str | None:
        """The component that requires the reference engine; `None` with the compiled engine."""
        return self._pretrained.engine_reason

    @property
    def components(self) -> dict[str, str]:
        """Each component by its name in `tokenizer.json`, such as `normalizer`, with its type and its options."""
        return dict(self._pretrained.components())

    @property
    def vocab_size(self) -> int:
        """The number of tokens, added ones included."""
        return self._pretrained.vocab_size

    @property
    def special_tokens(self) -> dict[str, str]:
        """The named special tokens, such as `eos_token`."""
        return dict(self._pretrained.special_tokens)

    @property
    def chat_templates(self) -> dict[str, str]:
        """The chat templates by name. `default` is used if no other is chosen."""
        return dict(self._pretrained.chat_templates)

    def id_to_token(self, token_id: int) -> str | None:
        """The content of a token; `None` for an id that no token has."""
        try:
            return self._pretrained.id_to_token(token_id)
        except OverflowError:
            return None  # no id is negative, or takes more than 32 bits
        except TypeError as refused:
            message = f"must be a whole number, not `{shown(token_id)}`"
            raise OptionTypeError(message, "token_id") from refused

    def encode(self, text: str, *, add_special_tokens: bool = True) -> npt.NDArray[np.int32]:
        """Encodes one text.

        Args:
            text: The text.
            add_special_tokens: True if the tokenizer adds its special tokens, such as `<s>`.

        Returns:
            The ids, as an int32 array.

        Raises:
            OptionTypeError: `text` is no `str`; a `TypeError`.
            OptionError: `text` holds half of a surrogate pair; a `ValueError`.
        """
        check_switch("add_special_tokens", add_special_tokens)
        return self._encoders.encode(text, add_special_tokens)

    @overload
    def encode_batch(
        self,
        texts: Texts,
        *,
        add_special_tokens: bool = ...,
        return_offsets: Literal[False] = ...,
        verify: int = ...,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]: ...

    @overload
    def encode_batch(
        self,
        texts: Texts,
        *,
        add_special_tokens: bool = ...,
        return_offsets: Literal[True],
        verify: int = ...,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32]]: ...

    def encode_batch(
        self,
        texts: Texts,
        *,
        add_special_tokens: bool = True,
        return_offsets: bool = False,
        verify: int = _VERIFY,
    ) -> (
        tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
        | tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32]]
    ):
        """Encodes many texts on all threads.

        Args:
            texts: A list of `str`, or anything that hands over Arrow strings (`pyarrow`, `polars`), which are
                read where they lie.
            add_special_tokens: True if the tokenizer adds its special tokens, such as `<s>`.
            return_offsets: True if the characters of each id are wanted too. They are those of the Hugging
                Face crate.
            verify: The number of texts, evenly spread, that the Hugging Face crate encodes too, as a check.

        Returns:
            `ids`, int32, of all texts end to end; `offsets`, int64, one more than there are texts: those of
            text `i` are `ids[offsets[i]:offsets[i + 1]]`. With `return_offsets`, an int32 array of shape
            `(len(ids), 2)` too: where in its text each id begins and ends, in characters.

        Raises:
            OptionTypeError: A text is no `str`, or an array holds no strings; a `TypeError`.
            OptionError: A text holds half of a surrogate pair, or an array a null; a `ValueError`.
            VerificationError: The ids of a text that was verified differ.

        Examples:
            >>> import fastpack
            >>> tokenizer = fastpack.Tokenizer("examples/tokenizer")
            >>> ids, offsets = tokenizer.encode_batch(["a river", "a boat"])
            >>> tokenizer.decode(ids[offsets[1] : offsets[2]])
            'a boat'
        """
        check_switch("add_special_tokens", add_special_tokens)
        check_switch("return_offsets", return_offsets)
        ids, offsets, characters = self._encoders.encode_batch(
            _texts(texts), add_special_tokens, return_offsets, verify, self._threads
        )
        return (ids, offsets) if characters is None else (ids, offsets, characters)

    def __call__(
        self,
        text: str | Sequence[str],
        text_pair: str | Sequence[str] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        return_tensors: Literal["np", "pt"] | None = None,
    ) -> dict[str, object]:
        """Encodes texts like a call of the transformers tokenizer, so that it can replace one in a data loader.

        Args:
            text: One text, or a list of them.
            text_pair: The second text of a pair, or a list of them, one for each text. Beside one text, an empty one
                counts as none.
            add_special_tokens: True if the tokenizer adds its special tokens, such as `<s>`.
            padding: `True` or `"longest"` fills up to the longest text, `"max_length"` to `max_length`, or to the
                model's own if there is none.
            truncation: `True` cuts texts to `max_length` tokens, special ones included, or to the model's own; of two
                texts the longer one first. `"only_first"` and `"only_second"` cut that text of a pair.
            max_length: Tokens; without padding and `truncation`, it cuts by itself.
            return_tensors: `"np"` for numpy arrays, `"pt"` for tensors of PyTorch, both int64 and of shape
                `(texts, tokens)`; lists if not given.

        Returns:
            `input_ids`, `attention_mask` and, where the class has them, `token_type_ids`: for one text lists, for
            several lists of lists.

        Raises:
            OptionTypeError: A text is no `str`; a `TypeError`.
            OptionError: An option has no such value, there is no padding token, or rows of different lengths are to be
                tensors; a `ValueError`.

        Examples:
            >>> import fastpack
            >>> tokenizer = fastpack.Tokenizer("examples/tokenizer")
            >>> tokenizer("a river", truncation=True, max_length=1)
            {'input_ids': [67], 'attention_mask': [1]}
        """
        check_switch("add_special_tokens", add_special_tokens)
        known = defaults(self._pretrained.call)
        fills = padded_to(padding, max_length, known)
        paired = text_pair is not None
        length = cut_to(truncation, max_length, pads=padding is not False, pairs=paired, known=known)
        if isinstance(text, str) and text_pair == "":
            text_pair, paired = None, False  # as transformers has it, but not in a list of texts
        pad = None if fills is False else self._pad_id()
        frame = self._frame(paired, add_special_tokens, known.names)
        texts = [self._rows(part) for part in _columns(text, text_pair)]
        rows = [
            framed(cut(list(row), frame, length, known.truncation_side, truncation), frame)
            for row in zip(*texts, strict=True)
        ]
        columns = arranged(rows, fills, pad or 0, known)
        if return_tensors is not None:
            return as_tensors(columns, return_tensors)
        return {name: column[0] if isinstance(text, str) else column for name, column in columns.items()}

    def _frame(self, pair: bool, add_special_tokens: bool, names: tuple[str, ...]) -> Frame:
        """The tokens around one text, or around two."""
        if not pair and "token_type_ids" not in names:
            # The Hugging Face engine, which knows the types, takes long to build.
            found = around(self._ids) if add_special_tokens else ([], [])
            if found is not None:
                tokens = [[(None, token, 0) for token in ids] for ids in found]
                return [*tokens[0], (0, 0, 0), *tokens[1]]
        key = (pair, add_special_tokens)
        if key not in self._frames:
            self._frames[key] = self._pretrained.frame(pair, add_special_tokens)
        return self._frames[key]

    def _ids(self, text: str, add_special_tokens: bool) -> list[int]:
        ids: list[int] = self.encode(text, add_special_tokens=add_special_tokens).tolist()
        return ids

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without special tokens."""
        ids, offsets = self.encode_batch(texts, add_special_tokens=False)
        bounds = offsets.tolist()
        return [ids[start:end].tolist() for start, end in pairwise(bounds)]

    def _pad_id(self) -> int:
        """The id of the padding token, or of the unknown one if the vocabulary lacks it."""
        special = self.special_tokens
        for name in ("pad_token", "unk_token"):
            token = special.get(name)
            if token is None and name == "pad_token":
                break
            found = None if token is None else self._pretrained.token_to_id(token)
            if found is not None:
                return found
        message = "the tokenizer has no padding token to fill up with"
        raise OptionError(message, "padding")

    def decode(self, ids: Sequence[int] | npt.NDArray[np.int32]) -> str:
        """The text of `ids`, special tokens included."""
        return self._pretrained.decode(ids)

    @overload
    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, JsonValue]],
        *,
        tools: Sequence[Mapping[str, JsonValue]] | None = ...,
        chat_template: StrPath | ChatTemplate | None = ...,
        tokenize: Literal[False],
        return_assistant_tokens_mask: bool = ...,
    ) -> str: ...

    @overload
    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, JsonValue]],
        *,
        tools: Sequence[Mapping[str, JsonValue]] | None = ...,
        chat_template: StrPath | ChatTemplate | None = ...,
        tokenize: Literal[True] = ...,
        return_assistant_tokens_mask: bool = ...,
    ) -> EncodedChat: ...

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, JsonValue]],
        *,
        tools: Sequence[Mapping[str, JsonValue]] | None = None,
        chat_template: StrPath | ChatTemplate | None = None,
        tokenize: bool = True,
        return_assistant_tokens_mask: bool = False,
    ) -> EncodedChat | str:
        """Renders and encodes a conversation, in the same way as a run over a file.

        Args:
            messages: The messages, as a record holds them: `{role, content}` or `{from, value}`.
            tools: The tools, as JSON schemas.
            chat_template: A Jinja text, the path of one, or the name of one of the tokenizer's templates; the
                tokenizer's own if not given. A `ChatTemplate` has variables, `add_generation_prompt` among them, and an
                engine.
            tokenize: True if ids are returned, not the text.
            return_assistant_tokens_mask: True to tell which ids the assistant wrote: those whose source
                overlaps what a template marks with `{% generation %}`, or what is derived where it does not.

        Returns:
            A dict with `input_ids`, and `assistant_masks` if they are asked for, as int32 arrays; the text
            if `tokenize` is `False`.

        Raises:
            OptionError: The template refuses the messages, or what the assistant wrote cannot be told.
            TemplateError: The template cannot be used.

        Examples:
            >>> import fastpack
            >>> tokenizer = fastpack.Tokenizer("examples/tokenizer")
            >>> chat = tokenizer.apply_chat_template(
            ...     [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
            ...     return_assistant_tokens_mask=True,
            ... )
            >>> bool(chat["assistant_masks"].any())
            True
        """
        check_switch("tokenize", tokenize)
        check_switch("return_assistant_tokens_mask", return_assistant_tokens_mask)
        rendering = OPTIONS["chat_template"].value_in({"chat_template": chat_template})
        assert isinstance(rendering, ChatTemplate)  # noqa: S101  no other value is taken
        for name in ("now", "decode_arguments"):
            if getattr(rendering, name):
                message = "is for calls that pack records; leave it out"
                raise OptionError(message, f"chat_template.{name}")
        template = choose_template(
            rendering.source, self._pretrained, kwargs=rendering.variables, engine=rendering.engine
        )
        if not tokenize:
            return self._encoders.render((messages, tools), template)
        ids, masks = self._encoders.chat((messages, tools), template, return_assistant_tokens_mask)
        if return_assistant_tokens_mask:
            return {"input_ids": ids, "assistant_masks": masks}
        return {"input_ids": ids}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles a tokenizer of a path by its path, and a live one by its content."""
        source = self._source
        if isinstance(source, (str, os.PathLike)) and os.path.exists(os.path.expanduser(source)):
            source = Path(source).expanduser().absolute()
        return _unpickled, (source, self._options, self._pretrained.fingerprint)

    def __repr__(self) -> str:
        """Shows the tokenizer's size, its engine, and the reason if that is the reference engine."""
        why = f", 20 to 80 times slower than a compiled one: {self.reason}" if self.reason else ""
        return f"<fastpack.Tokenizer of {self.vocab_size} tokens, {self.engine} engine{why}>"


class _TokenizerState(TypedDict):
    """The options in the pickle of a tokenizer."""

    threads: int | None
    cache_size: int | str
    revision: str | None


def _unpickled(
    source: TokenizerArgument | Tokenizer, options: _TokenizerState, fingerprint: str
) -> Tokenizer:
    """Loads a tokenizer again, and refuses one that gives other ids than the one that was pickled."""
    tokenizer = Tokenizer(source, **options)
    if tokenizer._pretrained.fingerprint != fingerprint:  # noqa: SLF001  the same module
        message = f"the tokenizer `{shown(source)}` is not the one that was pickled: it has changed since"
        raise TokenizerError(message)
    return tokenizer


def pretrained(
    tokenizer: TokenizerArgument | Tokenizer, *, revision: str | None, token: str | bool | None
) -> _fastpack.Pretrained:
    """Loads the tokenizer of an argument; a loaded one is returned unchanged."""
    loaded = tokenizer._pretrained if isinstance(tokenizer, Tokenizer) else tokenizer  # noqa: SLF001  the same module
    return load(loaded, revision=revision, token=token)


def _columns(text: str | Sequence[str], pair: str | Sequence[str] | None) -> list[Sequence[str]]:
    """The first texts of a call, and the second ones if it has pairs."""
    if isinstance(text, str):
        if pair is None or isinstance(pair, str):
            return [[text]] if pair is None else [[text], [pair]]
        message = "must be a text, since `text` is one"
        raise OptionError(message, "text_pair")
    if pair is None:
        return [text]
    if isinstance(pair, str) or len(pair) != len(text):
        message = f"must be a list of {len(text)} texts, one for each of `text`"
        raise OptionError(message, "text_pair")
    return [text, pair]


def _texts(texts: Texts) -> Sequence[object]:
    """Converts texts to the types that the native module takes: a list of `str`, or of Arrow arrays."""
    if hasattr(texts, "__arrow_c_array__"):
        return [texts]
    if hasattr(texts, "__arrow_c_stream__"):
        import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

        return pa.chunked_array(texts).chunks  # type: ignore[arg-type]
    if is_series(texts):
        return list(each_of(texts, "while fastpack read `texts`"))
    message = f"must be a list of str, not {type(texts).__qualname__}"
    raise OptionTypeError(message, "texts")

"""The trained part of a conversation, turn by turn, by definition: slow, and by `transformers` alone.

What the model has to generate in a turn is what stands behind the prompt that it is given there, up to and with the
first token at which generation stops. Where a template writes the past otherwise once the turn is there, the past
is taken from the prompt.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

Message = dict[str, Any]

THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""The fields in which a message holds its reasoning."""


def without_nulls(messages: list[Message]) -> list[Message]:
    """The messages as a table holds them: a field without a value is a field that is not there."""
    return [{name: value for name, value in message.items() if value is not None} for message in messages]


def shared(one: Any, other: Any) -> int:
    """The length of the common prefix of two sequences."""
    return next(
        (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right),
        min(len(one), len(other)),
    )


def reopened(before: str, behind: str) -> int:
    """Characters behind a turn that open another one: some templates end each text with the header of the assistant.

    What begins inside of a word or a mark is the end of another one: `ent|>` of `<|recipient|>`.
    """
    said = behind.rstrip()
    same = shared(before.rstrip()[::-1], said[::-1])
    opened, other = said[len(said) - same :], said[: len(said) - same]
    is_broken = opened[:1].isalnum() and other == other.rstrip() != ""
    if is_broken or not any(character.isalnum() for character in opened):
        return 0
    return len(behind) - len(said) + same


def words_changed(message: Message) -> Message:
    """A message of the same build that ends in other words, so that texts alike behind it are the template's."""
    changed = copy.deepcopy(message)
    content = changed.get("content")
    holders = (
        [changed, *(part for part in content if isinstance(part, dict))]
        if isinstance(content, list)
        else [changed]
    )
    for holder in holders:
        for name in ("content", "text", *THOUGHTS):
            words = holder.get(name)
            if isinstance(words, str) and words.strip():
                holder[name] = "1" if words.rstrip().endswith("0") else "0"
    for call in changed.get("tool_calls") or []:
        function = call.get("function", call)
        function["name"] += "_"
        function["arguments"] = '{"q": 0}' if isinstance(function["arguments"], str) else {"q": 0}
    return changed


def strangers(message: Message) -> list[Message]:
    """Messages of the role that have nothing in common but the template's text for the role."""
    role = message["role"]
    function = {"name": "zz", "arguments": {"q": "x"}}
    call = {"id": "abcdefgh0", "type": "function", "function": function}
    return [
        {"role": role, "content": "0"},
        {"role": role, "content": "Zz"},
        {"role": role, "content": "", "tool_calls": [call]},
        {"role": role, "content": "0", **dict.fromkeys(THOUGHTS, "Zz")},
    ]


@dataclasses.dataclass
class Turn:
    """A turn of the assistant, behind the text that the model sees before it."""

    messages: list[int]
    """The indexes of its messages: more than one where the template joins them."""
    seen: str
    said: str
    is_stopped: bool
    """True if the generated text ends with a token at which generation stops."""
    opens_otherwise: bool
    """True if the generated text begins elsewhere than the generation prompt ends."""

    @property
    def text(self) -> str:
        return self.seen + self.said


@dataclasses.dataclass
class Document:
    """A text, and the characters of it that are trained."""

    text: str
    trained: list[tuple[int, int]]
    messages: list[int] = dataclasses.field(default_factory=list)
    """The last message of each trained turn."""


class Rule:
    """The rule for one tokenizer with its chat template, whose generation stops at the tokens `stops`."""

    def __init__(self, tokenizer: Any, stops: list[str]) -> None:
        self.tokenizer = tokenizer
        self.stops = stops

    def labelled(self, documents: list[Document]) -> list[tuple[list[int], list[int]]]:
        """Ids and labels of documents: a token that reaches into trained characters is trained, but never the first.

        A document without a trained token is none.
        """
        found = []
        for document in documents:
            encoded = self.tokenizer(document.text, add_special_tokens=False, return_offsets_mapping=True)
            ids, labels = encoded["input_ids"], []
            for token, (begin, end) in zip(ids, encoded["offset_mapping"], strict=True):
                is_trained = bool(labels) and any(
                    begin < last and first < end for first, last in document.trained
                )
                labels.append(token if is_trained else -100)
            if set(labels) - {-100}:
                found.append((list(ids), labels))
        return found

    def documents(self, messages: list[Message], tools: Any = None, turns: str = "auto") -> list[Document]:
        """The documents of a conversation. Raises the error of the template for it, or for all of its turns."""
        chat = _Chat(self, without_nulls(messages), tools)
        whole = chat.text(chat.messages)
        found = chat.turns()
        if turns == "last":
            last = max(
                (at for at, message in enumerate(messages) if message["role"] == "assistant"), default=-1
            )
            found = [turn for turn in found if last in turn.messages]
        if turns == "each":
            return [self._alone(turn, whole, is_last=turn is found[-1]) for turn in found if turn.said]
        return self._fewest(found, whole) or [Document(whole, [])]

    def turns(self, messages: list[Message], tools: Any = None) -> list[Turn]:
        """The turns of the assistant. Raises the error of the template for all of them."""
        return _Chat(self, without_nulls(messages), tools).turns()

    def _alone(self, turn: Turn, whole: str, *, is_last: bool) -> Document:
        """The text up to a turn; that of the last goes on to the end of the conversation if it can."""
        text, rest = turn.text, whole.removeprefix(turn.text)
        is_continued = len(rest) < len(whole)
        ahead = self._stop_ahead(rest) if is_continued and not turn.is_stopped else 0
        trained = (len(turn.seen), len(text) + ahead)
        return Document(
            whole if is_last and is_continued else text + rest[:ahead], [trained], turn.messages[-1:]
        )

    def _fewest(self, turns: list[Turn], whole: str) -> list[Document]:
        """One text for all turns that it continues; the last goes on to the end of the conversation if it can."""
        texts = list(dict.fromkeys(turn.text for turn in turns))
        ends = [
            text for text in texts if not any(other != text and other.startswith(text) for other in texts)
        ]
        documents = [Document(text, []) for text in ends]
        if ends and whole.startswith(ends[-1]):
            documents[-1].text = whole
        for turn in turns:
            home = next(at for at, end in enumerate(ends) if end.startswith(turn.text))
            first, last = len(turn.seen), len(turn.text)
            if turn.said and not turn.is_stopped:
                last += self._stop_ahead(documents[home].text[last:])
            if turn.said:
                documents[home].trained.append((first, last))
                documents[home].messages.append(turn.messages[-1])
        return documents

    def first_stop(self, text: str) -> int | None:
        """The end of the first stop in a text."""
        places = [(text.find(stop), -len(stop)) for stop in self.stops if stop in text]
        at, length = min(places, default=(None, 0))
        return None if at is None else at - length

    def _stop_ahead(self, rest: str) -> int:
        """Characters up to and with the stop that a text begins with, behind blanks."""
        begun = rest.lstrip()
        lengths = [len(stop) for stop in self.stops if begun.startswith(stop)]
        return len(rest) - len(begun) + max(lengths) if lengths else 0

    def alike(self, other: str, text: str) -> int:
        """Characters of `text` in the tokens that both texts begin with."""
        if text.startswith(other):
            return len(other)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        others = self.tokenizer(other, add_special_tokens=False)["input_ids"]
        same = shared(encoded["input_ids"], others)
        return len(text) if same == len(encoded["input_ids"]) else encoded["offset_mapping"][same][0]


class _Chat:
    """One conversation and the texts of its beginnings."""

    def __init__(self, rule: Rule, messages: list[Message], tools: Any) -> None:
        self.rule, self.messages, self.tools = rule, messages, tools
        self.rendered: dict[str, str | Exception] = {}

    def text(self, messages: list[Message], *, asks: bool = False) -> str:
        """The text of messages; nothing for none, which `transformers` refuses."""
        if not messages:
            return ""
        key = json.dumps([messages, asks])
        if key not in self.rendered:
            try:
                self.rendered[key] = self.rule.tokenizer.apply_chat_template(
                    copy.deepcopy(messages), tools=self.tools, tokenize=False, add_generation_prompt=asks
                )
            except Exception as refusal:
                self.rendered[key] = refusal
        found = self.rendered[key]
        if isinstance(found, Exception):
            raise found
        return found

    def attempt(self, messages: list[Message]) -> str:
        """The text of messages, empty if the template refuses them."""
        try:
            return self.text(messages)
        except Exception:
            return ""

    def turns(self) -> list[Turn]:
        """The turns of the assistant that the template takes. Raises its refusal if it takes none of them."""
        found: list[Turn] = []
        refusal = None
        for at, message in enumerate(self.messages):
            if message["role"] != "assistant":
                continue
            try:
                before = found[-1] if found and found[-1].messages[-1] == at - 1 else None
                turn = self.turn(at, before)
            except Exception as error:
                refusal = error
                continue
            if len(turn.messages) > 1:
                found.pop()
            found.append(turn)
        if refusal and not found:
            raise refusal
        return found

    def turn(self, at: int, before: Turn | None) -> Turn:
        """The turn of message `at`; with the turn `before` it where the template makes one of both."""
        past, message = self.messages[:at], self.messages[at]
        history, prompt, text = self.text(past), self.text(past, asks=True), self.text([*past, message])
        header = prompt[len(history) :] if prompt.startswith(history) else ""
        kept = self.rule.alike(prompt, text)
        fence = (
            self.behind_words(text, self.attempt([*past[:-1], words_changed(past[-1]), message]))
            if past
            else 0
        )
        written = text.find(header, fence) if header else -1

        seen, messages = prompt, [at]
        if before and not (text.startswith(before.seen) and self.is_joined(at, text, fence)):
            before = None
        if header and kept < len(prompt) and written < 0 and before:
            start, seen, messages = len(before.seen), before.seen, [*before.messages, at]
        elif header and kept == len(prompt):
            start = kept
        elif header and kept < fence and written >= 0:
            start = written + len(header)
        else:
            start = self.behind_role(at, text, fence=fence, kept=kept, asks=bool(header))
            seen = text[:start]
            if header and kept < fence and seen.endswith(header):
                seen = prompt

        changed = self.attempt([*past, words_changed(message)])
        words = start if changed in ("", text) else self.behind_words(text, changed, start)
        stop = self.rule.first_stop(text[words:])
        if stop is not None:
            end = words + stop
        else:
            end = max(start, len(text[: len(text) - reopened(text[:start], text[words:])].rstrip()))
        if message.get("tool_calls"):
            silent = {name: value for name, value in message.items() if name != "tool_calls"}
            if self.attempt([*past, silent]) == text:
                end = start
        opens = before.opens_otherwise if before and len(messages) > 1 else seen != prompt
        return Turn(messages, seen, text[start:end], stop is not None, opens)

    def behind_words(self, text: str, changed: str, start: int = 0) -> int:
        """The end of a message's words in `text`, whose words are others in `changed`; not before `start`."""
        if text == changed:
            return start
        alike = shared(text[::-1], changed[::-1])
        return max(start, len(text) - alike)

    def behind_role(self, at: int, text: str, *, fence: int, kept: int, asks: bool) -> int:
        """The end of the header that all messages of the role begin with."""
        header = self.role_end(at, text, fence)
        # Without a prompt the model generates the blank behind the header too.
        return max(kept, header if asks else len(text[:header].rstrip()))

    def role_end(self, at: int, text: str, fence: int) -> int:
        """The end of the text that all messages of the role begin with, not before `fence`."""
        texts = [self.attempt([*self.messages[:at], other]) for other in strangers(self.messages[at])]
        # A text that the template refuses has nothing to compare.
        ends = [self.rule.alike(other, text) for other in texts if other]
        return min((end for end in ends if end >= fence), default=fence)

    def is_joined(self, at: int, text: str, fence: int) -> bool:
        """True if the template goes on with the message before `at`, without the header that it writes for the first."""
        first = at
        while first and self.messages[first - 1]["role"] == "assistant":
            first -= 1
        opened = self.text(self.messages[: first + 1])
        begin = self.rule.alike(self.text(self.messages[:first]), opened)
        header = opened[begin : self.role_end(first, opened, begin)].strip()
        return header not in text[fence : self.role_end(at, text, fence)]

"""The trained parts of turns, by definition: slow, and by `transformers` alone.

The words of a part are where the text differs once others take their place. What the template writes around words
belongs to them. Where two parts meet, what begins the text without the first belongs to the second; where that does not
tell, what the text without the second has, too, belongs to the first.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from turn_rule import (
    THOUGHTS,
    Document,
    Message,
    Rule,
    Turn,
    _Chat,
    shared,
    strangers,
    without_nulls,
    words_changed,
)

REASONING, CONTENT, CALLS = "reasoning", "content", "calls"
OPEN, CLOSE = "<think>", "</think>"

Span = tuple[int, int]


class UntoldError(Exception):
    """A text does not tell its parts apart, so its record is refused."""


def other_words(words: str) -> str:
    """One character that neither begins nor ends the words, between the same blanks."""
    inner = words.strip()
    other = next(digit for digit in "012" if digit not in (inner[:1], inner[-1:]))
    at = words.index(inner)
    return words[:at] + other + words[at + len(inner) :]


def halves(content: str, inline: bool = True) -> tuple[str, str, str, str]:
    """The opening mark, words and closing mark of an inline thought, and the answer; without a thought, the answer alone."""
    if not inline:
        return "", "", "", content
    if CLOSE not in content:
        if content.lstrip().startswith(OPEN):
            raise UntoldError
        return "", "", "", content
    head, _, answer = content.partition(CLOSE)
    opened = len(head) - len(head.lstrip())
    if head[opened:].startswith(OPEN):
        opened += len(OPEN)
    inner = head[opened:]
    if any(mark in text for mark in (OPEN, CLOSE) for text in (inner, answer)):
        raise UntoldError
    words = inner.strip()
    begin = opened + (inner.index(words) if words else len(inner) - len(inner.lstrip()))
    close = head[begin + len(words) :] + CLOSE + answer[: len(answer) - len(answer.lstrip())]
    return head[:begin], words, close, answer.lstrip()


@dataclasses.dataclass
class Words:
    """One part of a message: its kind, the message with other words in it, and without it."""

    part: str
    other: Message
    left: Message


def parts_of(message: Message, *, inline: bool) -> list[Words]:
    """The parts of a message of the assistant."""
    found = []
    if any(str(message.get(name) or "").strip() for name in THOUGHTS):
        other = {**message, **{name: other_words(message[name]) for name in THOUGHTS if message.get(name)}}
        found.append(Words(REASONING, other, {k: v for k, v in message.items() if k not in THOUGHTS}))
    content = message.get("content")
    if isinstance(content, str):
        before, words, close, answer = halves(content, inline)
        if words:
            other = {**message, "content": before + other_words(words) + close + answer}
            found.append(Words(REASONING, other, {**message, "content": answer}))
        if answer.strip():
            other = {**message, "content": before + words + close + other_words(answer)}
            found.append(Words(CONTENT, other, {**message, "content": before + words + close}))
    elif isinstance(content, list) and any(part["text"].strip() for part in content):
        for number, part in enumerate(content):
            if halves(part["text"], inline)[2] and number:
                raise UntoldError
        parts = [
            {**part, "text": other_words(part["text"]) if part["text"].strip() else part["text"]}
            for part in content
        ]
        found.append(Words(CONTENT, {**message, "content": parts}, {**message, "content": ""}))
    if message.get("tool_calls"):
        bare = {name: value for name, value in message.items() if name in ("role", "tool_calls")}
        calls = words_changed(bare)["tool_calls"]
        left = {name: value for name, value in message.items() if name != "tool_calls"}
        found.append(Words(CALLS, {**message, "tool_calls": calls}, left))
    return found


def difference(text: str, other: str) -> Span:
    """The span in which a text differs from another one."""
    start = shared(text, other)
    return start, len(text) - shared(text[start:][::-1], other[start:][::-1])


def blanks(text: str, other: str) -> int:
    """The blanks that both texts begin with."""
    same = text[: shared(text, other)]
    return len(same) - len(same.lstrip())


class Parts:
    """The parts of one turn in the text `text`, where it stands from `start` on and ends before `end`."""

    def __init__(self, chat: _Chat, turn: Turn, text: str, start: int, end: int, wanted: set[str]) -> None:
        self.inline = REASONING in wanted
        self.chat, self.turn, self.text, self.start, self.end = chat, turn, text, start, end
        self.printed: list[tuple[int, Span, Words]] = []
        for at in turn.messages:
            for words in parts_of(chat.messages[at], inline=self.inline):
                first, last = difference(text, self.render(at, words.other))
                first, last = max(first, start), min(last, end)
                if first < last:
                    self.printed.append((at, (first, last), words))
        self.printed.sort(key=lambda one: one[1][0])
        places = [place for _, place, _ in self.printed]
        if any(one[1] > next_[0] for one, next_ in itertools.pairwise(places)):
            raise UntoldError

    def render(self, at: int, other: Message) -> str:
        """The text with another message."""
        messages = [*self.chat.messages[: self.turn.messages[-1] + 1]]
        messages[at] = other
        try:
            return self.chat.text(messages)
        except Exception as refusal:
            raise UntoldError from refusal

    def attempt(self, at: int, other: Message) -> str:
        try:
            return self.render(at, other)
        except UntoldError:
            return ""

    def border(self, number: int) -> int:
        """The end of the part of this number."""
        if number + 1 == len(self.printed):
            return self.end
        begin = self.border(number - 1) if number else self.start
        at, (_, last), words = self.printed[number]
        next_at, (first, _), next_words = self.printed[number + 1]
        without = self.attempt(at, words.left)
        head, tail = self.text[:begin], self.text[first:]
        if without.startswith(head) and without[len(head) :].endswith(tail):
            opening = without[len(head) : len(without) - len(tail)]
            opening = opening[blanks(opening, self.text[begin:]) :]
            between = self.text[last:first]
            if between.endswith(opening) and between[: len(between) - len(opening)].strip():
                return first - len(opening)
        same = self.chat.rule.alike(self.render(next_at, next_words.left), self.text)
        return min(max(same, last), first)

    def of(self, wanted: set[str]) -> list[Span]:
        """The places of parts."""
        spans = [
            (self.border(number - 1) if number else self.start, self.border(number))
            for number, (_, _, words) in enumerate(self.printed)
            if words.part in wanted
        ]
        if REASONING in wanted and not (self.printed and self.printed[0][2].part == REASONING):
            spans.append(self.empty_thought())
        return spans

    def empty_thought(self) -> Span:
        """The marks around no reasoning."""
        none = self.start, self.start
        at = self.printed[0][0] if self.printed else self.turn.messages[0]
        message = self.chat.messages[at]
        one, other = ({**message, **dict.fromkeys(THOUGHTS, word)} for word in "01")
        text, second = self.attempt(at, one), self.attempt(at, other)
        if not text or not second or text == second:
            return none
        _, last = difference(text, second)
        begin = self.printed[0][1][0] if self.printed else self.end
        rest = len(text) - len(self.text[begin:])
        before = self.text[self.start : begin]
        before = before[blanks(before, text[self.start :]) :]
        if (
            not text.endswith(self.text[begin:])
            or rest < last
            or not text.startswith(self.text[: self.start])
        ):
            return none
        between = text[last:rest]
        if not before.strip() or (between.endswith(before) and between[: len(between) - len(before)].strip()):
            return none
        end = rest
        if self.printed:
            left = next(
                words.left for words in parts_of(one, inline=True) if words.part == self.printed[0][2].part
            )
            without = self.attempt(at, left)
            if not without:
                return none
            end = min(max(self.chat.rule.alike(without, text), last), rest)
        return self.start, max(self.start, begin - (rest - end))


def supplied(chat: _Chat, turn: Turn, text: str, start: int) -> int:
    """Characters before a turn that the generation prompt has behind the messages before.

    None where the turn goes on with other words and the text has nothing of the prompt.
    """
    past = chat.messages[: turn.messages[-1]]
    history, asked = chat.text(past), chat.text(past, asks=True)
    header = asked[chat.rule.alike(history, asked) :]
    seen = text[:start]
    if not header or seen.endswith(header):
        return len(header)
    if seen.startswith(history) and asked.startswith(history):
        return len(seen) - len(history)
    return max((length for length in range(1, len(header)) if seen.endswith(header[:length])), default=0)


def without_reasoning(message: Message) -> Message:
    """A message without its reasoning."""
    left = {name: value for name, value in message.items() if name not in THOUGHTS}
    if isinstance(left.get("content"), str):
        left["content"] = halves(left["content"])[3]
    return left


def turns_or_refusal(chat: _Chat) -> tuple[_Chat, list[Turn], Exception | None]:
    """The turns of a chat, or why the template takes none."""
    try:
        return chat, chat.turns(), None
    except Exception as refusal:
        return chat, [], refusal


class PartRule(Rule):
    """The rule for turns of which roles and parts are trained, as a `fastpack.TrainOn` says."""

    def parted(self, messages: list[Message], tools: Any, turns: str, wanted: Any) -> list[Document]:
        """The documents of a conversation, with their trained parts."""
        messages = without_nulls(messages)
        chats = self._chats(messages, tools, drops=wanted.drop_history_reasoning_content)
        found = self._turns(chats)
        if turns == "last":
            last = max(at for at in range(-1, len(messages)) if at < 0 or messages[at]["role"] == "assistant")
            found = [turn for turn in found if last in turn.messages]
        chat = chats[found[-1].messages[-1]] if found else list(chats.values())[-1]
        whole = chat.text(chat.messages)
        if turns == "each":
            made = [self._alone(turn, whole, is_last=turn is found[-1]) for turn in found if turn.said]
        else:
            made = self._fewest(found, whole)
        made = made or [Document(whole, [])]
        reached = 0
        for document in made:
            trained: list[Span] = []
            untrained: list[Span] = []
            for start, end in document.trained if "assistant" in wanted.roles else []:
                turn = next(
                    turn for turn in found if document.text.startswith(turn.text) and len(turn.seen) == start
                )
                more, less = self._parts(chats[turn.messages[-1]], turn, start, wanted)
                trained += [(start, end), *more]
                untrained += less
            ends = [turn for turn in found if document.text.startswith(turn.text)]
            count = len(messages)
            if document.text != whole:
                longest = max(ends, key=lambda turn: len(turn.text))
                chat = chats[longest.messages[-1]]
                kept = chat.text(chat.messages[: longest.messages[-1] + 1]).startswith(longest.seen)
                count = longest.messages[-1] + kept
            elif found:
                chat = chats[found[-1].messages[-1]]
            for at in range(reached, count):
                role = messages[at]["role"]
                if role != "assistant" and role in wanted.roles:
                    # Text of the assistant behind a message ends no message before it.
                    trained += minus(self._message(chat, at, count), document.trained)
            reached = max(reached, count)
            document.trained = minus(trained, untrained)
        return made

    def _chats(self, messages: list[Message], tools: Any, *, drops: bool) -> dict[int, _Chat]:
        """The conversation as each of its messages sees it: without the reasoning before the last user, if it `drops`."""
        users = [at for at, message in enumerate(messages) if message["role"] == "user" and at]
        cuts = [0, *users] if drops else [0]
        chats: dict[int, _Chat] = {}
        for first, last in zip(cuts, [*cuts[1:], len(messages)], strict=True):
            if first and not any(message["role"] == "assistant" for message in messages[first:last]):
                continue
            dropped = [
                without_reasoning(message) if at < first and message["role"] == "assistant" else message
                for at, message in enumerate(messages)
            ]
            chats |= dict.fromkeys(range(first, last), _Chat(self, dropped, tools))
        return chats

    def _turns(self, chats: dict[int, _Chat]) -> list[Turn]:
        """The turns as their chats have them. Raises the refusal of the template if it takes none."""
        each = [turns_or_refusal(chat) for chat in dict.fromkeys(chats.values())]
        found = [turn for chat, turns, _ in each for turn in turns if chats.get(turn.messages[-1]) is chat]
        refusals = [refusal for _, _, refusal in each if refusal]
        if refusals and not found:
            raise refusals[-1]
        return found

    def _parts(self, chat: _Chat, turn: Turn, start: int, wanted: Any) -> tuple[list[Span], list[Span]]:
        """The spans trained besides a turn that begins at `start` of its document, and its untrained spans."""
        masks: set[str] = {REASONING} if wanted.mask_reasoning_content else set()
        masks |= {CALLS} if wanted.mask_tool_calls else set()
        text = chat.text(chat.messages[: turn.messages[-1] + 1])
        begin = start if text.startswith(turn.seen) else text.rindex(turn.said)
        more: list[Span] = []
        less: list[Span] = []
        if not wanted.mask_generation_prompt:
            more.append((start - supplied(chat, turn, text, begin), start))
        if masks:
            stop = max((len(stop) for stop in self.stops if turn.said.endswith(stop)), default=0)
            parts = Parts(chat, turn, text, begin, begin + len(turn.said) - stop, masks)
            less += [(first - begin + start, last - begin + start) for first, last in parts.of(masks)]
        return more, less

    def _message(self, chat: _Chat, at: int, count: int) -> list[Span]:
        """The span of a message of another role in the text of the first messages."""
        whole = chat.text(chat.messages[:count])

        def replaced(number: int, other: Message) -> str:
            return chat.attempt([*chat.messages[:number], other, *chat.messages[number + 1 : count]])

        def words_end(number: int, reached: int) -> int:
            other = replaced(number, words_changed(chat.messages[number]))
            return reached if other == whole else max(chat.behind_words(whole, other), reached)

        reached = 0
        for number in range(at):
            reached = words_end(number, reached)
        last = words_end(at, reached)
        if last <= reached:
            return []
        kept = {
            name: value
            for name, value in chat.messages[at].items()
            if name not in ("content", "tool_calls", *THOUGHTS)
        }
        # A role that has no calls may be written as one that has them.
        others = [{**kept, **other} for other in strangers(chat.messages[at])[:2]]
        starts = [self.alike(replaced(at, other), whole) for other in others]
        start = min([last, *(start for start in starts if start >= reached)])
        alone = chat.text(chat.messages[: at + 1])
        changed = chat.attempt([*chat.messages[:at], words_changed(chat.messages[at])])
        closing = alone[chat.behind_words(alone, changed) :].rstrip()
        same = shared(whole[last:], closing)
        end = self.first_stop(whole[last : last + same])
        if end is None:
            end = self._special(chat, whole[last:]) or same + self._stop_ahead(whole[last + same :])
        return [(start, last + end)]

    def _special(self, chat: _Chat, rest: str) -> int:
        """Characters up to and with the special token that a text begins with, if no turn begins with it."""
        asked = [{"role": "user", "content": "x"}]
        history, asks = chat.text(asked), chat.text(asked, asks=True)
        opened = chat.text([*asked, {"role": "assistant", "content": "Zz"}])
        header = asks[shared(history, asks) :]
        header += opened[self.alike(history, opened) : opened.rindex("Zz")]
        begun = rest.lstrip()
        added = (str(token) for token in self.tokenizer.added_tokens_decoder.values())
        lengths = [len(token) for token in added if begun.startswith(token) and token not in header]
        return len(rest) - len(begun) + max(lengths) if lengths else 0


def minus(spans: list[Span], others: list[Span]) -> list[Span]:
    """Spans without others."""
    for first, last in others:
        spans = [
            piece
            for start, end in spans
            for piece in ((start, min(end, first)), (max(start, last), end))
            if piece[0] < piece[1]
        ]
    return sorted(set(spans))

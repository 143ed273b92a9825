"""The usual families of chat templates, each as a template and as the plain text that it renders."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Message = dict[str, str]
Span = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Family:
    """The texts around the words of each role; `{n}` stands for the number of the round."""

    name: str
    user: tuple[str, str]
    assistant: tuple[str, str]
    system: tuple[str, str] | None
    markers: tuple[str, ...] = ()
    """The special tokens of its models' tokenizers."""
    begin: str = ""
    """The text at the beginning of a conversation."""
    prompt: str | None = None
    """The generation prompt, if it is not the whole text before an answer."""
    last: str = ""
    """The text at the end of a conversation."""

    def template(self, *, trims: bool, prompts: bool, marks: bool = False) -> str:
        """Its chat template."""
        content = "m['content']" + (" | trim" if trims else "")

        def said(text: str) -> str:
            return f"{{{{ {quoted(text, 'n.n')} }}}}"

        def turn(around: tuple[str, str]) -> str:
            return f"{said(around[0])}{{{{ {content} }}}}{said(around[1])}"

        answer = turn(self.assistant)
        if marks:
            end = self.assistant[1].rstrip()
            rest = self.assistant[1][len(end) :]
            answer = (
                f"{said(self.assistant[0])}{{% generation %}}{{{{ {content} }}}}{said(end)}"
                f"{{% endgeneration %}}{said(rest)}"
            )
        system = turn(self.system) if self.system else ""
        prompt = self.asks if prompts else ""
        return (
            f"{{% set n = namespace(n=0) %}}{said(self.begin)}{{% for m in messages %}}"
            f"{{% if m['role'] == 'system' %}}{system}"
            f"{{% elif m['role'] == 'user' %}}{{% set n.n = n.n + 1 %}}{turn(self.user)}"
            f"{{% else %}}{answer}{{% endif %}}{{% endfor %}}"
            f"{{% if {'add_generation_prompt' if prompts else 'false'} %}}{said(prompt)}"
            f"{{% else %}}{said(self.last)}{{% endif %}}"
        )

    @property
    def asks(self) -> str:
        """The generation prompt."""
        return self.assistant[0] if self.prompt is None else self.prompt

    def render(
        self, messages: Sequence[Message], *, trims: bool, prompts: bool
    ) -> tuple[str, list[Span], list[Span]]:
        """The text; the assistant's text with its ends; and these ends."""
        text = self.begin
        spans, ends, number = [], [], 0
        for message in messages:
            words = message["content"].strip() if trims else message["content"]
            before, after = {"system": self.system, "user": self.user, "assistant": self.assistant}[
                message["role"]
            ] or ("", "")
            number += message["role"] == "user"
            # Without a prompt the model writes the blanks behind the header, too.
            shown = self.asks if prompts else before if self.last == before else before.rstrip()
            start = len(text) + len(shown)
            text += before.replace("{n}", str(number)) + words
            said = len(text)
            text += after.replace("{n}", str(number))
            if message["role"] == "assistant":
                end = said + len(after.rstrip())
                if not after.strip():
                    end = len(text[:end].rstrip())
                spans.append((start, max(start, end)))
                ends.append((said + len(after) - len(after.lstrip()), end) if after.strip() else (end, end))
        return text + self.last, spans, ends


def quoted(text: str, number: str) -> str:
    """A text as an expression of the template language."""
    parts = [json.dumps(part, ensure_ascii=False) for part in text.split("{n}")]
    return f" ~ {number} ~ ".join(parts)


def chatml(name: str, start: str, end: str, markers: tuple[str, ...], **more: str) -> Family:
    """A family that names the role behind a token of its own."""
    around = {role: (f"{start}{role}\n", f"{end}\n") for role in ("user", "assistant", "system")}
    return Family(name, around["user"], around["assistant"], around["system"], markers, **more)


FAMILIES = [
    chatml("chatml", "<|im_start|>", "<|im_end|>", ("<|im_start|>", "<|im_end|>")),
    chatml(
        "closed chatml", "<|im_start|>", "<|im_end|>", ("<|im_start|>", "<|im_end|>"), last="<|endoftext|>"
    ),
    chatml("always asking", "<|im_start|>", "<|im_end|>", ("<|im_start|>",), last="<|im_start|>assistant\n"),
    chatml("stopped by a line", "### ", "\n###", (), last="\n"),
    Family("vicuna", ("USER: ", " "), ("ASSISTANT: ", "</s>"), ("", " "), ("</s>",), prompt="ASSISTANT:"),
    Family(
        "vicuna 1.0", ("### Human: ", "\n"), ("### Assistant: ", "\n"), ("", "\n"), prompt="### Assistant:"
    ),
    Family(
        "seen always",
        ("<|user|>", "<|end|>"),
        ("<|bot|>", "<|end|>"),
        None,
        ("<|end|>",),
        begin="<|system|>x<|end|>",
    ),
    Family("roles", ("### User:\n", "\n\n"), ("### Assistant:\n", "\n\n"), ("### System:\n", "\n\n")),
    Family(
        "alpaca",
        ("### Instruction:\n", "\n\n"),
        ("### Response:\n", "<|end|>\n\n"),
        ("", "\n\n"),
        ("<|end|>",),
    ),
    Family("chatglm2", ("[Round {n}]\n\n问：", "\n\n"), ("答：", "\n\n"), None),
    Family("llama 2", ("<s>[INST] ", " [/INST]"), (" ", " </s>"), None, ("<s>", "</s>"), prompt=""),
    Family(
        "mistral",
        ("[INST] ", " [/INST]"),
        ("", "</s>"),
        None,
        ("<s>", "</s>", "[INST]", "[/INST]"),
        begin="<s>",
    ),
    Family(
        "llama 3",
        ("<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        begin="<|begin_of_text|>",
    ),
    Family(
        "gemma",
        ("<start_of_turn>user\n", "<end_of_turn>\n"),
        ("<start_of_turn>model\n", "<end_of_turn>\n"),
        None,
        ("<bos>", "<start_of_turn>", "<end_of_turn>"),
        begin="<bos>",
    ),
    Family(
        "phi 3",
        ("<|user|>\n", "<|end|>\n"),
        ("<|assistant|>\n", "<|end|>\n"),
        ("<|system|>\n", "<|end|>\n"),
        ("<|user|>", "<|assistant|>", "<|system|>", "<|end|>"),
        last="<|endoftext|>",
    ),
    Family(
        "deepseek",
        ("<｜User｜>", ""),
        ("<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
        ("", ""),
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        begin="<｜begin▁of▁sentence｜>",
    ),
    Family("one token", ("USER: ", " "), ("ASSISTANT: ", "</s>"), None, ("</s>",), begin="</s>"),
    Family("tags", ("<user>", "</user>"), ("<bot>", "</bot>"), ("<system>", "</system>"), ("</bot>",)),
    Family("bare", ("Q: ", "\n"), ("A: ", "\n"), ("", "\n"), prompt="A:"),
    Family("closed bare", ("Q: ", "\n"), ("A: ", "\n"), ("", "\n"), ("<|endoftext|>",)),
]

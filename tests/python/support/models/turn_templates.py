"""Small chat templates that stand for the kinds in the field, by their treatment of turns, reasoning and calls."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Kind:
    """A template, and the tokens at which its models stop."""

    source: str
    stops: tuple[str, ...]


def with_macros(source: str) -> str:
    """A template behind the macros that all of these need: the words of a message, and its calls."""
    return (
        "{%- macro said(m) -%}{%- if m.content is string -%}{{ m.content }}{%- elif m.content -%}"
        "{%- for part in m.content -%}{{ part.text }}{%- endfor -%}{%- endif -%}{%- endmacro -%}"
        "{%- macro calls(m, before, after) -%}{%- for call in m.tool_calls or [] -%}{{ before }}"
        "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}{{ after }}"
        "{%- endfor -%}{%- endmacro -%}"
        "{%- if tools %}<|start|>tools\n{{ tools | tojson }}<|end|>\n{% endif -%}"
    ) + source


_HEADER = "<|start|>{{ m.role }}\n"
_THOUGHT = "m.reasoning_content or m.reasoning or m.thinking or ''"
_CALLS = "{{ calls(m, '<tool_call>', '</tool_call>') }}"
_ASKS = "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
_LAST_USER = (
    "{%- set n = namespace(user=-1) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}"
    "{%- set n.user = loop.index0 -%}{%- endif -%}{%- endfor -%}"
)

KINDS = {
    "plain": Kind(
        f"{{% for m in messages %}}{_HEADER}{{{{ said(m) }}}}{_CALLS}<|end|>\n{{% endfor %}}{_ASKS}",
        ("<|end|>",),
    ),
    "keeps reasoning": Kind(
        f"{{% for m in messages %}}{_HEADER}{{% set t = {_THOUGHT} %}}{{% if t %}}<think>{{{{ t }}}}</think>"
        f"{{% endif %}}{{{{ said(m) }}}}{_CALLS}<|end|>\n{{% endfor %}}{_ASKS}",
        ("<|end|>", "<|eos|>"),
    ),
    "drops earlier reasoning": Kind(
        f"{_LAST_USER}{{% for m in messages %}}{_HEADER}{{% set t = {_THOUGHT} %}}"
        "{% set words = said(m) %}{% if m.role == 'assistant' and '</think>' in words %}"
        "{% set t = words.split('</think>')[0].split('<think>')[-1].strip('\\n') %}"
        "{% set words = words.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
        "{% if m.role == 'assistant' and t and loop.index0 > n.user %}<think>\n{{ t.strip('\\n') }}\n</think>\n\n{% endif %}"
        f"{{{{ words }}}}{_CALLS}<|end|>\n{{% endfor %}}{_ASKS}",
        ("<|end|>",),
    ),
    "empty thought in the last turn alone": Kind(
        f"{_LAST_USER}{{% for m in messages %}}{_HEADER}{{% if m.role == 'assistant' and loop.index0 > n.user "
        f"and (loop.last or {_THOUGHT}) %}}<think>\n{{{{ {_THOUGHT} }}}}\n</think>\n\n{{% endif %}}"
        f"{{{{ said(m) }}}}{_CALLS}<|end|>\n{{% endfor %}}{_ASKS}",
        ("<|end|>",),
    ),
    "prompt opens a thought": Kind(
        f"{{% for m in messages %}}{_HEADER}{{% set t = {_THOUGHT} %}}{{% if t %}}<think>\n{{{{ t }}}}\n</think>\n"
        f"{{% endif %}}{{{{ said(m) }}}}{_CALLS}<|end|>\n{{% endfor %}}"
        "{% if add_generation_prompt %}<|start|>assistant\n<think>\n{% endif %}",
        ("<|end|>",),
    ),
    "always thinks": Kind(
        f"{{% for m in messages %}}{_HEADER}{{% if m.role == 'assistant' %}}<think>\n{{{{ {_THOUGHT} }}}}</think>"
        f"{{% endif %}}{{{{ said(m) }}}}{_CALLS}<|end|>\n{{% endfor %}}"
        "{% if add_generation_prompt %}<|start|>assistant\n<think>\n{% endif %}",
        ("<|end|>",),
    ),
    "cuts inline thoughts": Kind(
        "{% for m in messages %}"
        + _HEADER
        + "{% if m.role == 'assistant' %}{{ said(m).split('</think>')[-1] }}"
        "{% else %}{{ said(m) }}{% endif %}" + _CALLS + "<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n<think>\n{% endif %}",
        ("<|end|>",),
    ),
    "no prompt": Kind(
        f"{{% for m in messages %}}{_HEADER}{{{{ said(m) }}}}{_CALLS}<|end|>\n{{% endfor %}}", ("<|end|>",)
    ),
    "named speakers": Kind(
        "{% for m in messages %}{% if m.role == 'assistant' %}BOT: {{ said(m) }}{{ calls(m, ' CALL ', '') }}</s>"
        "{% else %}{{ m.role | upper }}: {{ said(m) }} {% endif %}{% endfor %}"
        "{% if add_generation_prompt %}BOT:{% endif %}",
        ("</s>",),
    ),
    "ends before the next": Kind(
        "{% for m in messages %}{% if m.role == 'tool' %}<|observation|>{% else %}<|{{ m.role }}|>{% endif %}\n"
        "{{ said(m) }}" + _CALLS + "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        ("<|eos|>", "<|user|>", "<|observation|>"),
    ),
    "channels": Kind(
        f"{_LAST_USER}{{%- set n.final = false -%}}{{%- for m in messages -%}}{{%- if m.role == 'assistant' and "
        "not m.tool_calls -%}{%- set n.final = loop.index0 -%}{%- endif -%}{%- endfor -%}"
        f"{{%- for m in messages %}}{{%- set t = {_THOUGHT} -%}}{{%- if m.role == 'assistant' -%}}"
        "{%- if t and (m.tool_calls and (n.final is false or n.final < loop.index0) or loop.last) -%}"
        "<|start|>assistant<|channel|>analysis<|message|>{{ t }}<|end|>{%- endif -%}"
        "{%- if m.tool_calls -%}<|start|>assistant<|channel|>commentary<|message|>{{ calls(m, '', '') }}<|call|>"
        "{%- else -%}<|start|>assistant<|channel|>final<|message|>{{ said(m) }}"
        "{%- if loop.last and not add_generation_prompt -%}<|return|>{%- else -%}<|end|>{%- endif -%}{%- endif -%}"
        "{%- else -%}<|start|>{{ m.role }}<|message|>{{ said(m) }}<|end|>{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}",
        ("<|return|>", "<|call|>"),
    ),
    "prints no calls": Kind(
        f"{{% for m in messages %}}{_HEADER}{{{{ said(m) }}}}<|end|>\n{{% endfor %}}{_ASKS}", ("<|end|>",)
    ),
    "joins the assistant": Kind(
        "{% for m in messages %}{% if m.role != 'assistant' or loop.index0 == 0 or "
        "messages[loop.index0 - 1].role != 'assistant' %}<|start|>{{ m.role }}\n{% endif %}{{ said(m) }}"
        f"{_CALLS}{{% if m.role != 'assistant' or loop.last or messages[loop.index0 + 1].role != 'assistant' %}}"
        f"<|end|>\n{{% endif %}}{{% endfor %}}{_ASKS}",
        ("<|end|>",),
    ),
    "joins with the results": Kind(
        "{% set n = namespace(open=false) %}{% for m in messages %}{% if m.role == 'assistant' %}"
        "{% if not n.open %}<|start|>assistant\n{% endif %}{{ said(m) }}"
        + _CALLS
        + "{% if not m.tool_calls %}<|end|>\n"
        "{% set n.open = false %}{% else %}{% set n.open = true %}{% endif %}{% elif m.role == 'tool' %}<result>"
        "{{ said(m) }}</result>{% else %}{% set n.open = false %}<|start|>{{ m.role }}\n{{ said(m) }}<|end|>\n{% endif %}"
        "{% endfor %}{% if add_generation_prompt and not n.open %}<|start|>assistant\n{% endif %}",
        ("<|end|>",),
    ),
    "alternates": Kind(
        "{% set ns = namespace(user=true) %}{% for m in messages %}{% if m.role == 'system' %}"
        "{{ raise_exception('no system here') }}{% endif %}{% if m.role in ['user', 'assistant'] %}"
        "{% if (m.role == 'user') != ns.user %}{{ raise_exception('roles must alternate') }}{% endif %}"
        "{% set ns.user = not ns.user %}{% endif %}"
        "{% if m.role == 'user' %}[INST] {{ said(m) }} [/INST]{% elif m.role == 'tool' %}[RESULT]{{ said(m) }}[/RESULT]"
        "{% set ns.user = false %}{% else %} {{ said(m) | trim }}{{ calls(m, '[CALL]', '') }}</s>{% endif %}{% endfor %}",
        ("</s>",),
    ),
    "trims, and shows the rules once": Kind(
        "{% for m in messages %}{% if loop.last and m.role == 'user' %}<|start|>system\nBe brief.<|end|>\n{% endif %}"
        f"{_HEADER}{{{{ said(m) | trim }}}}{_CALLS}<|end|>\n{{% endfor %}}{_ASKS}",
        ("<|end|>",),
    ),
    "closes the text": Kind(
        f"{{% for m in messages %}}{_HEADER}{{{{ said(m) }}}}{_CALLS}<|end|>\n{{% endfor %}}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% else %}<|eos|>{% endif %}",
        ("<|end|>", "<|eos|>"),
    ),
    "one form of calls": Kind(
        f"{{% for m in messages %}}{_HEADER}{{% if m.tool_calls %}}{_CALLS}{{% else %}}{{{{ said(m) }}}}{{% endif %}}"
        f"<|end|>\n{{% endfor %}}{_ASKS}",
        ("<|end|>",),
    ),
}

KINDS = {name: Kind(with_macros(kind.source), kind.stops) for name, kind in KINDS.items()}

MARKS = re.compile(
    r"<\|[^|<>\s{}'\"]+\|>|</?[a-zA-Z_]+>|\[/?[A-Z_]+\]|<｜[^｜{}]+｜>|<[a-z_]+_sentence>|<[a-z]+_of_[a-z]+>|<\|[a-zA-Z_]+>|<[a-zA-Z_]+\|>"
)
"""Texts that look like a token of their own in a template."""

STOPS = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "</s>",
    "<|END_OF_TURN_TOKEN|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<turn|>",
    "<|endoftext|>",
    "<｜end▁of▁sentence｜>",
    "<|user|>",
    "<|observation|>",
    "<|end|>",
    "<|end_of_text|>",
    "<|assistant_end|>",
    "[EOS]",
    "<|role_end|>",
    "<|END_RESPONSE|>",
    "<|eot|>",
    "[e~[",
    "<end_of_sentence>",
    "<｜hy_eos:opensource｜>",
    "<|hy_eos|>",
    "<|end_of_msg|>",
    "<|message_end|>",
    "<|message_sep|>",
]
"""The tokens at which published models stop."""


def kind_of(source: str) -> Kind:
    """The kind of a published template: its models stop at the known tokens that it writes."""
    return Kind(source, tuple(stop for stop in STOPS if stop in source) or ("<|eos|>",))


def write_folder(base: Path, out: Path, kind: Kind) -> Path:
    """Writes the tokenizer in `base` with the tokens of a template besides, and that template."""
    source = kind.source
    begin = ["<|bos|>"] if "bos_token" in source else []
    marks = list(dict.fromkeys([*kind.stops, *begin, *MARKS.findall(source)]))
    tokenizer = json.loads((base / "tokenizer.json").read_bytes())
    known = {entry["content"]: entry["id"] for entry in tokenizer["added_tokens"]}
    size = 1 + max([*tokenizer["model"]["vocab"].values(), *known.values()])
    new = [mark for mark in marks if mark not in known]
    known |= {mark: size + number for number, mark in enumerate(new)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer["added_tokens"] += [{"id": known[mark], "content": mark, **flags} for mark in new]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": kind.stops[0],
        "pad_token": kind.stops[0],
        **({"bos_token": begin[0]} if begin else {}),
    }
    generation = {"eos_token_id": [known[stop] for stop in kind.stops]}
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (out / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (out / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    (out / "chat_template.jinja").write_text(source, encoding="utf-8")
    return out

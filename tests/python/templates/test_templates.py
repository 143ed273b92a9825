"""Rendered text equals `apply_chat_template(tokenize=False)`, or is refused by name."""

from __future__ import annotations

from collections import Counter

from template_helpers import CONVERSATIONS, outcome, trl_templates

# Records with images, without a role and the like are refused before any template sees them: `no conversation`.
# Of the others, measured with trl's wheel of the development requirements; a lower number means that something got refused.
IDENTICAL_AT_LEAST = 0.99


def test_every_template_of_trl_renders_as_in_transformers() -> None:
    totals: Counter[str] = Counter()
    problems = []
    for name, source in trl_templates().items():
        counts: Counter[str] = Counter()
        for title, record in CONVERSATIONS.items():
            kind, reason = outcome(source, record)
            if kind == "refused" and reason.startswith("`messages["):
                kind = "no conversation"
            counts[kind] += 1
            if kind in ("DIFFERENT", "refused"):
                problems.append(f"{name} / {title}: {kind}: {reason}")
        totals += counts
        print(f"{name:45} {dict(counts)}")
    print("\n".join(problems))
    print(totals)
    rendered = totals["identical"] + totals["refused"]
    assert totals["DIFFERENT"] == 0
    assert totals["identical"] >= IDENTICAL_AT_LEAST * rendered

"""A secret that tests put into every place that could take one, to see where it comes out."""

from __future__ import annotations

import pickle
import traceback

import fastpack

CANARY = "c4n4ry"

NOWHERE = "127.0.0.1:1"
"""An address at which no server listens."""

FORMS = {
    "user": "https://{0}@{1}/0.jsonl",
    "password": "https://user:{0}@{1}/0.jsonl",
    "signature": "https://{1}/0.jsonl?X-Amz-Signature={0}",
    "fragment": "https://{1}/0.jsonl#{0}",
    "upper case": "HTTPS://user:{0}@{1}/0.jsonl",
    "space before": " https://user:{0}@{1}/0.jsonl",
    "line before": "\nhttps://user:{0}@{1}/0.jsonl",
    "one slash": "https:/user:{0}@{1}/0.jsonl",
    "three slashes": "https:///user:{0}@{1}/0.jsonl",
    "no slash": "https:user:{0}@{1}/0.jsonl",
    "backslashes": "https:\\\\user:{0}@{1}/0.jsonl",
    "slash within": "https://user:a/{0}@{1}/0.jsonl",
    "question mark within": "https://user:a?{0}@{1}/0.jsonl",
    "at within": "https://user:a@{0}@{1}/0.jsonl",
    "at and slash within": "https://user:a@b/{0}@{1}/0.jsonl",
    "quote within": "https://user:a'{0}@{1}/0.jsonl",
    "space within": "https://user:a {0}@{1}/0.jsonl",
    "hub": "hf://user:{0}@huggingface.co/datasets/a/b",
    "hub query": "hf://datasets/a/b?token={0}",
    "bucket": "s3://KEY:a/{0}@bucket/0.jsonl",
    "bucket query": "s3://bucket/0.jsonl?X-Amz-Signature={0}",
    "sftp": "sftp://user:{0}@{1}/0.jsonl",
    "unknown": "foo://user:{0}@{1}/0.jsonl",
    "long": "https://user:{0}@{1}/" + "a" * 900,
    "long before": "https://user:" + "a" * 90 + "{0}@{1}/0.jsonl",
    "very long before": "https://user:" + "a" * 500 + "{0}@{1}/0.jsonl",
}
"""Ways to write a secret into a URL, rightly or wrongly. `{0}` is the secret and `{1}` the host."""


def urls() -> dict[str, str]:
    """All forms, with the canary in them."""
    return {name: form.format(CANARY, NOWHERE) for name, form in FORMS.items()}


def everything_in(error: BaseException) -> str:
    """All texts of an exception, by itself and in a traceback, and of its attributes and its pickle."""
    said = []
    seen = error
    while seen is not None:
        said += [str(seen), repr(seen), repr(seen.args), str(getattr(seen, "filename", ""))]
        if isinstance(seen, fastpack.FastpackError):
            said += [repr(vars(seen)), pickle.dumps(seen).decode("latin-1")]
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "\n".join([*said, *traceback.format_exception_only(error)])

"""Reasons for data loss: why a document or a mention is missing, and which option helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class Reason:
    """Describe the loss of a document or a mention.

    Reasons with the same text are equal, and are counted together. Other fields are ignored in
    comparisons.

    Attributes:
        text: Short explanation for `set_aside.jsonl` and the manifest. It never contains text of
            the corpus.
        code: Common name for texts that differ in numbers only. Default: "", the text has no
            numbers.
        advice: Option -> advice, shown for sources that have this option. `{set}` is replaced by
            the syntax for options, such as `--set`.
        is_rule: Whether an option or the corpus itself excludes the document or mention; it then
            does not count as data loss. Default: False.
    """

    text: str
    code: str = field(default="", compare=False)
    advice: Mapping[str, str] = field(default_factory=dict, compare=False)
    is_rule: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.text

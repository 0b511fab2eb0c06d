"""The record of a loss: why a document or a mention is missing, and which option helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class Reason:
    """The reason for the loss of a document or a mention, made where the loss is found.

    Reasons of one text are equal, and are counted together.

    Attributes:
        text: What was expected and what came, without the document's words. It stands in
            `set_aside.jsonl` and in the manifest.
        code: The same for reasons that differ in numbers alone; "" where the text has none.
        advice: Option -> what to do, for sources that have the option. `{set}` stands for the
            command's own option, such as `--set`.
        is_rule: Whether an option or the corpus itself asks for it: nothing is lost.
    """

    text: str
    code: str = field(default="", compare=False)
    advice: Mapping[str, str] = field(default_factory=dict, compare=False)
    is_rule: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.text

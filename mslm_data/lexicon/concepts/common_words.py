"""Find concept names that are common words, such as the drug `Date` or the disease `AS`.

They are listed, and dropped only on request: `cancer` and `stroke` are among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from mslm_data import _optional
from mslm_data.errors import MissingExtraError
from mslm_data.lexicon.concepts.names import Name, NameTally
from mslm_data.log import LOGGER

CommonWordsRule = Literal["warn", "drop", "keep"]
"""Names that are common words are kept and reported, dropped, or kept without checking."""

_MIN_FREQUENCY = 1e-5
"""Minimum frequency of a common word in English: 1 in 100,000 words."""


class CommonWords:
    """Find common words among names, and drop them if required."""

    def __init__(self, rule: CommonWordsRule) -> None:
        """Load word frequencies, unless the rule is "keep".

        Raises:
            MissingExtraError: The rule is "drop", and the package wordfreq is not installed. With
                "warn" this is only logged.
        """
        self._drops = rule == "drop"
        self._frequencies: dict[str, float] | None = None
        self._found: dict[str, float] = {}
        if rule == "keep":
            return

        try:
            wordfreq = _optional.load("wordfreq", wanted_by="a look for common words among names")
        except MissingExtraError as error:
            if self._drops:
                raise
            LOGGER.warning("%s", error)
        else:
            self._frequencies = wordfreq.get_frequency_dict("en", wordlist="best")

    def filter(self, names: Iterable[Name], tally: NameTally) -> Iterator[Name]:
        """Yield names; common words are skipped if the rule is "drop"."""
        for name in names:
            word = name.name.lower()
            frequency = self._frequencies.get(word, 0.0) if self._frequencies else 0.0
            if frequency < _MIN_FREQUENCY:
                yield name
                continue

            self._found[word] = frequency
            if self._drops:
                tally.left_out["common word"] += 1
            else:
                yield name

    def found(self) -> tuple[str, ...] | None:
        """Return the common words so far, most common first; None if names are not checked.

        They are names of concepts, not text of a corpus.
        """
        if self._frequencies is None:
            return None
        return tuple(sorted(self._found, key=lambda word: (-self._found[word], word)))

"""Finds concept names that are common words, such as the drug `Date` or the disease `AS`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from mslm_data import _optional
from mslm_data.errors import MissingExtraError
from mslm_data.lexicon.concepts.names import Name
from mslm_data.log import LOGGER

CommonWordsRule = Literal["warn", "drop", "keep"]
"""Names that are common words are kept and told, left out, or kept without a look."""

_LEAST = 1e-5
"""A word is common if it is at least this share of general English: one word of 100,000."""


class CommonWords:
    """Collect the common words among names."""

    def __init__(self, rule: CommonWordsRule) -> None:
        """Load the frequencies of words, unless names are kept without a look.

        Raises:
            MissingExtraError: The package wordfreq is not installed, and names are to be left out
                by it. If they are only told, the log has a warning instead.
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

    def pass_on(self, names: Iterable[Name], left_out: Counter[str]) -> Iterator[Name]:
        """Yield names, without common words if they are to be dropped."""
        for name in names:
            word = name.name.lower()
            frequency = self._frequencies.get(word, 0.0) if self._frequencies else 0.0
            if frequency < _LEAST:
                yield name
                continue

            self._found[word] = frequency
            if self._drops:
                left_out["common word"] += 1
            else:
                yield name

    def found(self) -> tuple[str, ...] | None:
        """Return the common words so far, most common first; None if they were not looked for.

        They are names of concepts, and no text of a corpus.
        """
        if self._frequencies is None:
            return None
        return tuple(sorted(self._found, key=lambda word: (-self._found[word], word)))

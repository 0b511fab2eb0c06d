"""The one door to MedCAT: imported without its version check, logs and usage files, and with our tokenizers."""

from __future__ import annotations

import importlib.util
import logging
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from mslm_data import _optional
from mslm_data.annotate.medcat import tokenizer as medcat_tokenizer


def load(module: str = "medcat", *, wanted_by: str = "annotator 'medcat'") -> ModuleType:
    """Import a module of MedCAT, or one that it brings.

    Args:
        module: `medcat`, one below it such as `medcat.cat`, or `pandas`.
        wanted_by: Who asks, for the message when it is missing.

    Raises:
        MissingExtraError: MedCAT is not installed.
    """
    _optional.load("medcat", wanted_by=wanted_by)
    # At WARNING MedCAT writes the beginning of notes that fail in training, at DEBUG every mention.
    logging.getLogger("medcat").setLevel(logging.ERROR)
    tokenizers = _optional.load("medcat.tokenizing.tokenizers", wanted_by=wanted_by)
    known = dict(tokenizers.list_available_tokenizers())
    for name, lemma in (
        (medcat_tokenizer.WORDS, str),
        (medcat_tokenizer.LEMMAS, medcat_tokenizer.singular),
    ):
        if name not in known:
            tokenizers.register_tokenizer(name, medcat_tokenizer.creator(lemma, stop_words))
    return _optional.load(module, wanted_by=wanted_by)


def stop_words(config: Any) -> set[str]:
    """Return the stop words of a MedCAT configuration: its own, or those of spaCy for its model's language."""
    if config.preprocessing.stopwords is not None:
        return set(config.preprocessing.stopwords)
    model = os.path.basename(config.general.nlp.modelname).removeprefix("tokenizer_internals_")
    return _spacy_stop_words(model.partition("_")[0]) or _spacy_stop_words("en")


def _spacy_stop_words(language: str) -> set[str]:
    """Read spaCy's list without importing spaCy, which takes 2 seconds a process (5 where torch is installed)."""
    package = importlib.util.find_spec("spacy")
    if package is None or package.origin is None:
        _optional.load("spacy", wanted_by="annotator 'medcat'")
        return set()
    path = Path(package.origin).parent / "lang" / language / "stop_words.py"
    spec = importlib.util.spec_from_file_location(f"_stop_words_{language}", path)
    if not language.isalpha() or not path.is_file() or spec is None or spec.loader is None:
        return set()
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return set(module.STOP_WORDS)

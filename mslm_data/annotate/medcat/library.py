"""Imports MedCAT without its log output, and registers our tokenizers."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from mslm_data import _optional
from mslm_data.annotate.medcat.tokenizer import LEMMAS, WORDS, factory
from mslm_data.annotate.plurals import singular

_ASKS = "annotator 'medcat'"


def import_module(module: str = "medcat") -> ModuleType:
    """Import a module of MedCAT.

    Args:
        module: Module name, such as `medcat.cat`. Default: `medcat`.

    Raises:
        MissingExtraError: MedCAT is not installed.
    """
    _optional.load("medcat", wanted_by=_ASKS)

    # MedCAT logs text of notes: at level WARNING the start of failing notes, at DEBUG all mentions.
    logging.getLogger("medcat").setLevel(logging.ERROR)

    _register_tokenizers(_optional.load("medcat.tokenizing.tokenizers", wanted_by=_ASKS))
    return _optional.load(module, wanted_by=_ASKS)


@contextmanager
def without_snapshot() -> Iterator[None]:
    """Prevent MedCAT from listing all installed packages.

    It does so for each configuration, which takes longer than loading 20,000 concepts.
    """
    snapshot: Any = import_module("medcat.utils.envsnapshot")
    names = ("get_installed_dependencies", "get_transitive_deps")
    originals = {name: getattr(snapshot, name) for name in names}
    for name in names:
        setattr(snapshot, name, lambda _: {})
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(snapshot, name, function)


def _register_tokenizers(registry: Any) -> None:
    """Register our tokenizers with MedCAT, once per process."""
    known = dict(registry.list_available_tokenizers())
    if WORDS not in known:
        registry.register_tokenizer(WORDS, factory(str, stop_words))
    if LEMMAS not in known:
        registry.register_tokenizer(LEMMAS, factory(singular, stop_words))


def stop_words(config: Any) -> set[str]:
    """Return the stop words of a MedCAT configuration, or else spaCy's for its language."""
    if config.preprocessing.stopwords is not None:
        return set(config.preprocessing.stopwords)

    # A pack has its spaCy model in a folder `tokenizer_internals_LANGUAGE_…`.
    folder = os.path.basename(config.general.nlp.modelname)
    language, _, _ = folder.removeprefix("tokenizer_internals_").partition("_")
    return _spacy_stop_words(language) or _spacy_stop_words("en")


def _spacy_stop_words(language: str) -> set[str]:
    """Return spaCy's stop words for a language; empty if there are none."""
    # Run only the file of stop words: importing spaCy takes 2 s per process, and 5 s with torch.
    package = importlib.util.find_spec("spacy")
    if package is None or package.origin is None:
        _optional.load("spacy", wanted_by=_ASKS)
        return set()

    path = Path(package.origin).parent / "lang" / language / "stop_words.py"
    spec = importlib.util.spec_from_file_location(f"_stop_words_{language}", path)
    if not language.isalpha() or not path.is_file() or spec is None or spec.loader is None:
        return set()

    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return set(module.STOP_WORDS)

"""Imports MedCAT without its log output, and registers our tokenizers."""

from __future__ import annotations

import logging
from types import ModuleType

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

    # Our tokenizers are registered once per process.
    registry = _optional.load("medcat.tokenizing.tokenizers", wanted_by=_ASKS)
    known = dict(registry.list_available_tokenizers())
    for name, lemma in ((WORDS, str), (LEMMAS, singular)):
        if name not in known:
            registry.register_tokenizer(name, factory(lemma))
    return _optional.load(module, wanted_by=_ASKS)

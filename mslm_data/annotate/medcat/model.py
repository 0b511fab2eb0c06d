"""Loads a MedCAT model (`CAT`) from a checked pack, with our tokenizer."""

from __future__ import annotations

import logging
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mslm_data.annotate.medcat.library import import_module
from mslm_data.annotate.medcat.tokenizer import LEMMAS, WORDS
from mslm_data.errors import AnnotateError, MslmDataError

_PROVIDERS = {"lemmas": LEMMAS, "words": WORDS}
_DONE_BY_TOKENIZER = ("tagging", "token_normalizing")
"""Components of MedCAT that our tokenizer replaces."""


def load_model(path: Path, *, tokenizer: str) -> Any:
    """Load a `CAT` without add-ons, such as models of meta-annotations.

    Args:
        path: Folder returned by `pack.checked`.
        tokenizer: `lemmas` or `words`, see `MedCat.tokenizer`.

    Raises:
        AnnotateError: MedCAT cannot load the pack, or the pack has a tagger or a normaliser of its
            own.
    """
    cat = import_module("medcat.cat").CAT
    config = {
        "general": {
            "usage_monitor": {"enabled": False},
            "log_level": logging.ERROR,
            "nlp": {"provider": _PROVIDERS[tokenizer]},
        },
        "components": {"addons": []},
    }
    try:
        loaded = cat.load_model_pack(str(path), config_dict=config)
        settle(loaded.config, where=str(path), tokenizer=tokenizer)

        # Create the model again, since it reads the order of components in its constructor.
        return cat(loaded.cdb, loaded.vocab, loaded.config)
    except (MslmDataError, OSError, MemoryError):
        raise
    except Exception as error:
        # The parts of a pack may be anything that can be pickled, so MedCAT fails in any way.
        raise AnnotateError(
            f"{path}: expected a pack that MedCAT {version('medcat')} can load, got "
            f"{type(error).__name__}; is it whole, and saved by `CAT.save_model_pack`?"
        ) from error


def settle(config: Any, *, where: str, tokenizer: str) -> None:
    """Change the settings of a pack to those required for annotation."""
    general = config.general
    general.spell_check = False
    general.usage_monitor.enabled = False
    general.log_level = logging.ERROR
    general.show_nested_entities = True
    general.make_pretty_labels = None
    general.map_to_other_ontologies = []
    general.nlp.provider = _PROVIDERS[tokenizer]

    components = config.components
    for name in _DONE_BY_TOKENIZER:
        own = getattr(components, name).comp_name
        if own != "default":
            raise AnnotateError(
                f"{where}: expected a pack with MedCAT's own component {name}, got '{own}'; use "
                "the pack in MedCAT itself"
            )
    components.comp_order = [
        name for name in components.comp_order if name not in _DONE_BY_TOKENIZER
    ]

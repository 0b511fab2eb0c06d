"""Builds MedCAT's model (`CAT`) from a checked pack or a concept table, for annotation.

Our tokenizer is put in, and components that take time and change nothing are left out.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from mslm_data.annotate.medcat.database import build_database, read_frames
from mslm_data.annotate.medcat.library import import_module, without_snapshot
from mslm_data.annotate.medcat.tokenizer import LEMMAS, WORDS
from mslm_data.errors import AnnotateError
from mslm_data.registry import did_you_mean

_PROVIDERS = {"lemmas": LEMMAS, "words": WORDS}
_DONE_BY_TOKENIZER = ("tagging", "token_normalizing")


def load_model(
    path: Path,
    *,
    tokenizer: str,
    meta: bool,
    settings: Mapping[str, Any],
    prefer: Collection[str],
) -> Any:
    """Load MedCAT's `CAT` from a pack or a concept table.

    Args:
        path: A folder or a concept table, as `pack.checked` returns it.
        tokenizer: `lemmas`, `words` or `pack`.
        meta: Whether to load the pack's meta-annotation models.
        settings: Tables of MedCAT's settings that replace the pack's.
        prefer: For a concept table: semantic types that get ambiguous names.

    Raises:
        AnnotateError: The pack is of an unknown version or needs a missing package; a setting is
            unknown.
    """
    if path.is_file():
        cdb = build_database(read_frames(path), prefer=prefer).cdb
        _settle(cdb.config, tokenizer=tokenizer, settings=settings)
        return make_model(cdb)

    with ExitStack() as surroundings:
        surroundings.enter_context(without_snapshot())
        surroundings.enter_context(redirect_stdout(io.StringIO()))  # converting old packs prints
        if tokenizer == "pack":
            surroundings.enter_context(_no_download())

        if (path / "cdb.dat").is_file():
            return _load_old(path, tokenizer=tokenizer, meta=meta, settings=settings)
        loaded = _load_pack(path, tokenizer=tokenizer, meta=meta)
    _settle(loaded.config, tokenizer=tokenizer, settings=settings)

    # A model reads the order of its components when it is made, so it is made anew. The pack's own
    # tokenizer and meta-annotation models have to stay with the model that loaded them.
    if meta or tokenizer == "pack":
        return loaded
    return import_module("medcat.cat").CAT(loaded.cdb, loaded.vocab, loaded.config)


def make_model(cdb: Any) -> Any:
    """Build a MedCAT model from a concept database, with the words of its names as vocabulary.

    The words have counts but no vectors. Vectors tell concepts of the same name apart, and
    `build_database` has given each name to one concept.
    """
    vocabulary = import_module("medcat.vocab").Vocab()
    for word in sorted(cdb.token_counts):
        vocabulary.add_word(word, cdb.token_counts[word])
    return import_module("medcat.cat").CAT(cdb, vocabulary, cdb.config)


def _load_pack(path: Path, *, tokenizer: str, meta: bool) -> Any:
    """Load a MedCAT 2 pack with settings that must be set before its objects are made."""
    general: dict[str, Any] = {"usage_monitor": {"enabled": False}, "log_level": logging.ERROR}
    if tokenizer in _PROVIDERS:
        general["nlp"] = {"provider": _PROVIDERS[tokenizer]}

    config: dict[str, Any] = {"general": general}
    if not meta:
        config["components"] = {"addons": []}

    cat = import_module("medcat.cat").CAT
    try:
        return cat.load_model_pack(str(path), config_dict=config)
    except import_module("medcat.utils.import_utils").MissingDependenciesError:
        raise AnnotateError(
            f"{path}: the add-ons of the pack need medcat's extras (meta-cat does not work with "
            "transformers 5); leave annotate.keep_meta out to load the pack without them"
        ) from None


def _settle(config: Any, *, tokenizer: str, settings: Mapping[str, Any]) -> None:
    """Apply the user's settings and those that annotation needs to a configuration."""
    general = config.general
    general.spell_check = False
    _apply(config, settings, at="annotate.settings")

    general.usage_monitor.enabled = False
    general.log_level = logging.ERROR
    general.show_nested_entities = True
    general.make_pretty_labels = None
    general.map_to_other_ontologies = []

    if tokenizer in _PROVIDERS:
        general.nlp.provider = _PROVIDERS[tokenizer]
        _drop_components(config)


def _drop_components(config: Any) -> None:
    """Remove MedCAT's tagger and normaliser, whose work our tokenizer does."""
    components = config.components
    tagging = components.tagging.comp_name
    normalizing = components.token_normalizing.comp_name
    if tagging == normalizing == "default" and not config.general.spell_check:
        components.comp_order = [
            name for name in components.comp_order if name not in _DONE_BY_TOKENIZER
        ]


def _apply(model: Any, settings: Mapping[str, Any], *, at: str) -> None:
    """Set values of a MedCAT configuration; pydantic checks their types.

    Args:
        model: The configuration, or a table of it.
        settings: Name -> value, or a table of these.
        at: The path of the table, for messages.
    """
    for name, value in settings.items():
        known = sorted(type(model).model_fields)
        if name not in known:
            raise AnnotateError(f"{at}: MedCAT has no setting '{name}'{did_you_mean(name, known)}")

        old = getattr(model, name)
        has_other_type = old is not None and not isinstance(value, type(old))
        if isinstance(value, Mapping) and hasattr(type(old), "model_fields"):
            _apply(old, value, at=f"{at}.{name}")
        elif isinstance(old, set) and isinstance(value, list):
            setattr(model, name, set(value))
        elif has_other_type and not isinstance(value, int | float):
            raise AnnotateError(f"{at}.{name}: expected a value like {old!r}, got {value!r}")
        else:
            setattr(model, name, value)


def _load_old(path: Path, *, tokenizer: str, meta: bool, settings: Mapping[str, Any]) -> Any:
    """Convert a MedCAT 1 pack in memory, like `medcat.utils.legacy` but without spaCy.

    MedCAT's own `load_model_pack` ignores overrides for such packs, and needs the spaCy model that
    they were made with.
    """
    if meta or tokenizer == "pack":
        raise AnnotateError(
            f'{path}: expected a pack of MedCAT 2 for annotate.keep_meta and tokenizer = "pack", '
            f"got one of MedCAT 1; convert it once with "
            f"`python -m medcat.utils.legacy.legacy_converter OLD NEW`"
        )

    legacy = "medcat.utils.legacy"
    convert_cdb = import_module(f"{legacy}.convert_cdb").get_cdb_from_old
    cdb = convert_cdb(str(path / "cdb.dat"), fix_spacy_model_name=False)

    vocabulary = None
    if (path / "vocab.dat").is_file():
        convert_vocab = import_module(f"{legacy}.convert_vocab").get_vocab_from_old
        vocabulary = convert_vocab(str(path / "vocab.dat"))

    config = cdb.config
    if (path / "config.json").is_file():
        convert_config = import_module(f"{legacy}.convert_config").get_config_from_old
        config = convert_config(str(path / "config.json"))
    config.components.addons = []
    config.general.nlp.provider = _PROVIDERS[tokenizer]

    # Sub-names are split anew with our tokenizer, which needs a whole model; the settings then need
    # another.
    cat = import_module("medcat.cat").CAT
    import_module(f"{legacy}.helpers").fix_subnames(cat(cdb, vocabulary, config))
    _settle(config, tokenizer=tokenizer, settings=settings)
    return cat(cdb, vocabulary, config)


@contextmanager
def _no_download() -> Iterator[None]:
    """Make MedCAT fail instead of downloading a spaCy model with pip.

    A pack holds its own model, or needs none.
    """
    spacy: Any = import_module("medcat.tokenizing.spacy_impl.tokenizers")
    wanted = spacy.ensure_spacy_model

    def refuse(name: str) -> None:
        if not import_module("medcat.tokenizing.spacy_impl.utils").has_spacy_model(name):
            raise AnnotateError(
                f"spaCy model '{name}', which the pack names: expected it in the pack or "
                f'installed, found neither; install it, or leave annotate.tokenizer at "lemmas"'
            )

    spacy.ensure_spacy_model = refuse
    try:
        yield
    finally:
        spacy.ensure_spacy_model = wanted

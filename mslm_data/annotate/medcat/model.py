"""Loads a MedCAT model (`CAT`) from a checked pack or a concept table.

The model gets our tokenizer. Components that our tokenizer makes superfluous are removed.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from mslm_data.annotate.medcat.database import build_database, configuration, read_frames
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
    """Load a `CAT` from a pack or a concept table.

    Args:
        path: Folder or concept table returned by `pack.checked`.
        tokenizer: `lemmas`, `words` or `pack`, see `MedCat.tokenizer`.
        meta: Whether to load the meta-annotation models of the pack.
        settings: Settings of MedCAT, as nested tables. They override those of the pack.
        prefer: For a concept table: semantic types preferred for ambiguous names.

    Raises:
        AnnotateError: The pack has an unsupported version or needs a missing package, or a setting
            is unknown.
    """
    if path.is_file():
        # Names are split as texts will be. Settings of components are for texts only.
        config = configuration()
        of_names = {name: value for name, value in settings.items() if name != "components"}
        _apply(config, of_names, at="annotate.settings")
        if tokenizer in _PROVIDERS:
            config.general.nlp.provider = _PROVIDERS[tokenizer]
        cdb = build_database(read_frames(path), config, prefer=prefer).cdb

        _settle(cdb.config, tokenizer=tokenizer, settings=settings)
        return make_model(cdb)

    with ExitStack() as surroundings:
        surroundings.enter_context(without_snapshot())
        surroundings.enter_context(redirect_stdout(io.StringIO()))  # the converter prints
        if tokenizer == "pack":
            surroundings.enter_context(_no_download())

        if (path / "cdb.dat").is_file():
            return _load_old(path, tokenizer=tokenizer, meta=meta, settings=settings)
        loaded = _load_pack(path, tokenizer=tokenizer, meta=meta)
    _settle(loaded.config, tokenizer=tokenizer, settings=settings)

    # Create the model again, since it reads the order of components in its constructor. This is not
    # possible with the tokenizer or the meta-annotation models of the pack, which are bound to the
    # loaded model.
    if meta or tokenizer == "pack":
        return loaded
    return import_module("medcat.cat").CAT(loaded.cdb, loaded.vocab, loaded.config)


def make_model(cdb: Any) -> Any:
    """Make a MedCAT model from a concept database, with the words of its names as vocabulary.

    The words have counts, but no vectors. These are only necessary for ambiguous names, which
    `build_database` has resolved.
    """
    vocabulary = import_module("medcat.vocab").Vocab()
    for word in sorted(cdb.token_counts):
        vocabulary.add_word(word, cdb.token_counts[word])
    return import_module("medcat.cat").CAT(cdb, vocabulary, cdb.config)


def _load_pack(path: Path, *, tokenizer: str, meta: bool) -> Any:
    """Load a MedCAT 2 pack, with the settings that its constructors read."""
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
    """Set the user's settings, and those required for annotation."""
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
    """Remove the tagger and the normaliser of MedCAT, which our tokenizer replaces."""
    components = config.components
    tagging = components.tagging.comp_name
    normalizing = components.token_normalizing.comp_name
    if tagging == normalizing == "default" and not config.general.spell_check:
        components.comp_order = [
            name for name in components.comp_order if name not in _DONE_BY_TOKENIZER
        ]


def _apply(model: Any, settings: Mapping[str, Any], *, at: str) -> None:
    """Set values of a MedCAT configuration. pydantic checks their types.

    Args:
        model: Configuration, or a table of it.
        settings: Name -> value or table.
        at: Path of the table, for messages.
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
    """Convert a MedCAT 1 pack in memory, like `medcat.utils.legacy` but without spaCy."""
    # `load_model_pack` of MedCAT ignores settings for such packs, and needs their spaCy model.
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

    # Split sub-names again with our tokenizer, which needs a complete model. The settings then need
    # another one.
    cat = import_module("medcat.cat").CAT
    import_module(f"{legacy}.helpers").fix_subnames(cat(cdb, vocabulary, config))
    _settle(config, tokenizer=tokenizer, settings=settings)
    return cat(cdb, vocabulary, config)


@contextmanager
def _no_download() -> Iterator[None]:
    """Raise an error instead of letting MedCAT download a spaCy model with pip."""
    spacy: Any = import_module("medcat.tokenizing.spacy_impl.tokenizers")
    original = spacy.ensure_spacy_model

    def check_installed(name: str) -> None:
        if not import_module("medcat.tokenizing.spacy_impl.utils").has_spacy_model(name):
            raise AnnotateError(
                f"spaCy model '{name}', which the pack names: expected it in the pack or "
                f'installed, found neither; install it, or leave annotate.tokenizer at "lemmas"'
            )

    spacy.ensure_spacy_model = check_installed
    try:
        yield
    finally:
        spacy.ensure_spacy_model = original

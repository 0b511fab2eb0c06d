"""Loads a checked model pack into MedCAT, with our tokenizer and without what takes time and changes nothing."""

from __future__ import annotations

import io
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from mslm_data.annotate.medcat import building as medcat_build
from mslm_data.annotate.medcat import importing as medcat_import
from mslm_data.annotate.medcat import tokenizer as medcat_tokenizer
from mslm_data.errors import AnnotateError
from mslm_data.registry import did_you_mean

_PROVIDERS = {"lemmas": medcat_tokenizer.LEMMAS, "words": medcat_tokenizer.WORDS}
_DONE_BY_TOKENIZER = ["tagging", "token_normalizing"]


def load(
    path: Path, *, tokenizer: str, meta: bool, settings: Mapping[str, Any], prefer: Collection[str]
) -> Any:
    """Return MedCAT's `CAT` of a pack or a concept table.

    Args:
        path: A folder, or a concept table; see `medcat_pack.checked`.
        tokenizer: `lemmas`, `words` or `pack`.
        meta: Whether the pack's meta-annotation models are wanted.
        settings: Tables of MedCAT's settings, put on top of the pack's.
        prefer: For a concept table: types that an ambiguous name goes to.

    Raises:
        AnnotateError: It is of an unknown version, or needs what is not there; an unknown setting.
    """
    cat = medcat_import.load("medcat.cat").CAT
    if path.is_file():
        cdb = medcat_build.build(medcat_build.table(path), prefer=prefer).cdb
        _settle(cdb.config, tokenizer=tokenizer, settings=settings)
        return medcat_build.model(cdb)
    safely = _no_download() if tokenizer == "pack" else nullcontext()
    with safely, redirect_stdout(io.StringIO()):  # the conversion of old packs prints
        if (path / "cdb.dat").is_file():
            return _load_old(path, tokenizer=tokenizer, meta=meta, settings=settings)
        config = _overrides(tokenizer) | ({} if meta else {"components": {"addons": []}})
        try:
            loaded = cat.load_model_pack(str(path), config_dict=config)
        except medcat_import.load("medcat.utils.import_utils").MissingDependenciesError:
            raise AnnotateError(
                f"{path}: expected a pack whose add-ons can be loaded, got one that needs medcat's extras (meta-cat "
                f"does not go with transformers 5); leave annotate.keep_meta out to load the pack without them"
            ) from None
    _settle(loaded.config, tokenizer=tokenizer, settings=settings)
    return (
        cat(loaded.cdb, loaded.vocab, loaded.config) if not meta and tokenizer != "pack" else loaded
    )


def _overrides(tokenizer: str) -> dict[str, Any]:
    """Return what is put on top of a pack's configuration before anything is made of it."""
    general: dict[str, Any] = {"usage_monitor": {"enabled": False}, "log_level": logging.ERROR}
    if tokenizer in _PROVIDERS:
        general["nlp"] = {"provider": _PROVIDERS[tokenizer]}
    return {"general": general}


def _settle(config: Any, *, tokenizer: str, settings: Mapping[str, Any]) -> None:
    """Put the user's settings and ours into a configuration."""
    general, components = config.general, config.components
    general.spell_check = False
    _apply(config, settings, at="annotate.settings")
    general.usage_monitor.enabled = False
    general.log_level = logging.ERROR
    general.show_nested_entities = True
    general.make_pretty_labels = None
    general.map_to_other_ontologies = []
    if tokenizer in _PROVIDERS:
        general.nlp.provider = _PROVIDERS[tokenizer]
        plain = components.tagging.comp_name == components.token_normalizing.comp_name == "default"
        if plain and not general.spell_check:
            components.comp_order = [
                name for name in components.comp_order if name not in _DONE_BY_TOKENIZER
            ]


def _apply(model: Any, settings: Mapping[str, Any], *, at: str) -> None:
    """Set a configuration's values, which pydantic may refuse."""
    for name, value in settings.items():
        known = sorted(type(model).model_fields)
        if name not in known:
            raise AnnotateError(f"{at}: MedCAT has no setting '{name}'{did_you_mean(name, known)}")
        old = getattr(model, name)
        if isinstance(value, Mapping) and hasattr(type(old), "model_fields"):
            _apply(old, value, at=f"{at}.{name}")
        elif isinstance(old, set) and isinstance(value, list):
            setattr(model, name, set(value))
        elif (
            old is not None
            and not isinstance(value, type(old))
            and not isinstance(value, int | float)
        ):
            raise AnnotateError(f"{at}.{name}: expected a value like {old!r}, got {value!r}")
        else:
            setattr(model, name, value)


def _load_old(path: Path, *, tokenizer: str, meta: bool, settings: Mapping[str, Any]) -> Any:
    """Convert a pack of MedCAT 1 in memory, as `medcat.utils.legacy` does but without its spaCy pipeline.

    MedCAT's own `load_model_pack` ignores overrides for such packs and needs the spaCy model that they were made with.
    """
    if meta or tokenizer == "pack":
        raise AnnotateError(
            f'{path}: expected a pack of MedCAT 2 for annotate.keep_meta and tokenizer = "pack", got one of MedCAT 1; '
            f"convert it once with `python -m medcat.utils.legacy.legacy_converter OLD NEW`"
        )
    legacy = "medcat.utils.legacy"
    cdb = medcat_import.load(f"{legacy}.convert_cdb").get_cdb_from_old(
        str(path / "cdb.dat"), fix_spacy_model_name=False
    )
    words, config = path / "vocab.dat", cdb.config
    vocabulary = (
        medcat_import.load(f"{legacy}.convert_vocab").get_vocab_from_old(str(words))
        if words.is_file()
        else None
    )
    if (path / "config.json").is_file():
        config = medcat_import.load(f"{legacy}.convert_config").get_config_from_old(
            str(path / "config.json")
        )
    cat_class = medcat_import.load("medcat.cat").CAT
    config.components.addons = []
    config.general.nlp.provider = _PROVIDERS[tokenizer]
    full = cat_class(cdb, vocabulary, config)
    medcat_import.load(f"{legacy}.helpers").fix_subnames(full)
    _settle(config, tokenizer=tokenizer, settings=settings)
    return cat_class(cdb, vocabulary, config)


@contextmanager
def _no_download() -> Iterator[None]:
    """Let MedCAT fail where it would download a spaCy model with pip: a pack holds its own, or none is needed."""
    spacy: Any = medcat_import.load("medcat.tokenizing.spacy_impl.tokenizers")
    wanted = spacy.ensure_spacy_model

    def refuse(name: str) -> None:
        if not medcat_import.load("medcat.tokenizing.spacy_impl.utils").has_spacy_model(name):
            raise AnnotateError(
                f"spaCy model '{name}', which the pack names: expected it in the pack or installed, found neither; "
                f'install it, or leave annotate.tokenizer at "lemmas"'
            )

    spacy.ensure_spacy_model = refuse
    try:
        yield
    finally:
        spacy.ensure_spacy_model = wanted

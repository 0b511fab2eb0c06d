"""Chooses the layer and feature of mentions in files that lack the default layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.log import LOGGER, TO_KEEP, few
from mslm_data.source.reading.cells import can_be_shown
from mslm_data.source.reading.standoff import NO_LABEL

_STANDARD = (
    "uima.",
    "de.tudarmstadt.ukp.dkpro.core.api.",
    "de.tudarmstadt.ukp.clarin.webanno.api.type.",
    "org.dkpro.core.api.",
)
"""Prefixes of types that annotation tools add to every text: tokens, sentences, parts of speech."""
_SHOWN = 12
_FEATURE_OPTION = "label_feature"

NO_FEATURE = Reason(
    NO_LABEL.text,
    advice={_FEATURE_OPTION: f"name the feature of the label with source.{_FEATURE_OPTION}"},
)
"""Reason for a mention without a value of the feature with the label."""


def is_user_layer(name: str) -> bool:
    """Return whether a type is a layer defined by users, not one added to every text."""
    return bool(name) and not name.startswith(_STANDARD)


def choose_layer(
    option: str,
    files: Iterable[Mapping[str, Iterable[str]] | None],
    *,
    expected: str,
    may_take: bool,
) -> dict[str, str]:
    """Choose the only layer of users in some files, and its only feature, if no file has another.

    Args:
        option: Name of the option for the layer.
        files: For each file, its layers -> their features; None if it has the expected layer. Files
            after such a file are not read.
        expected: The layer of the options.
        may_take: Whether another layer may be used, because the user has not set the option.

    Returns:
        The options to set. None are set if a file has the expected layer, or if no file has any, or
        if the user has named none and no file has a layer of users.

    Raises:
        SourceError: There are several layers or features, or another layer may not be used.
    """
    all_layers: dict[str, dict[str, None]] = {}
    for file_layers in files:
        if file_layers is None:
            return {}
        for name, features in file_layers.items():
            all_layers.setdefault(name, {}).update(dict.fromkeys(features))

    layers = {name: all_layers[name] for name in all_layers if is_user_layer(name)}
    if not all_layers or (may_take and not layers):
        return {}

    one_layer = f"the layer '{expected}' in one of the files"
    if not may_take or len(layers) != 1:
        with_features = [_with_features(name, layers[name]) for name in layers]
        options = f"{option} to one of them, and {_FEATURE_OPTION} to one of its features"
        raise _not_one(one_layer, "layers", filter(None, with_features), options)
    [(layer, layer_features)] = layers.items()
    if len(layer_features) > 1:
        alternatives = f"{one_layer}, or one feature in the only layer {layer}"
        shown = filter(can_be_shown, layer_features)
        raise _not_one(alternatives, "features", shown, f"{option} and {_FEATURE_OPTION}")

    chosen = {option: layer}
    if layer_features:
        [chosen[_FEATURE_OPTION]] = layer_features
    say_taken(chosen)
    return chosen


def say_taken(chosen: Mapping[str, str]) -> None:
    """Log the options that were set to the only candidate."""
    LOGGER.info(
        "source: took %s, as the files have no other",
        ", ".join(f"{option} = '{name}'" for option, name in chosen.items()),
        extra=TO_KEEP,
    )


def _with_features(layer: str, features: Iterable[str]) -> str:
    """Return the name of a layer with its features in brackets, "" if it cannot be shown."""
    if not can_be_shown(layer):
        return ""
    shown = [feature for feature in features if can_be_shown(feature)]
    return f"{layer} ({few(shown, _SHOWN)})" if shown else layer


def _not_one(expected: str, noun: str, shown: Iterable[str], option: str) -> SourceError:
    listed = [*shown]
    got = f"the {noun} {few(listed, _SHOWN)}" if listed else f"no {noun} of users"
    return SourceError(f"expected {expected}, got {got}; set [source] {option}")

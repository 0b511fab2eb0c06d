"""The form of the page: its strategies with their fields, and the problems with what was typed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mslm_data.errors import MslmDataError, VocabularyError
from mslm_data.look.corpus import Corpus
from mslm_data.look.options import Field, describe_error, fields, files_needed, strategy_names
from mslm_data.look.state import MAX_STRATEGIES, Choice, State
from mslm_data.mask.table import summary


class FormError(NamedTuple):
    """A message for the user.

    Attributes:
        message: What to mend.
        field: Id of the form's field; "" for none.
        is_value: An option has a wrong value. Default: something is missing, such as a file.
    """

    message: str
    field: str = ""
    is_value: bool = False


class StrategyForm(NamedTuple):
    """The part of the form for one strategy.

    Attributes:
        place: Number of the strategy, from 1.
        choice: The strategy; None for one to add.
        fields: Its inputs.
        description: What it masks.
    """

    place: int
    choice: Choice | None = None
    fields: tuple[Field, ...] = ()
    description: str = ""


def find_problems(corpus: Corpus, state: State) -> list[FormError]:
    """Return a problem for each strategy that cannot be made."""
    problems = []
    for place, choice in enumerate(state.strategies, 1):
        error = _try(corpus, choice)
        if error is not None:
            problems.append(_find_field(corpus, place, choice, error))
    return problems


def _try(corpus: Corpus, choice: Choice) -> Exception | None:
    """Make a strategy, and return its error."""
    try:
        corpus.make(choice)
    except (MslmDataError, ValueError) as error:
        return error
    return None


def _find_field(corpus: Corpus, place: int, choice: Choice, error: Exception) -> FormError:
    """Return the problem with a strategy, at the option without which it can be made."""
    for option, text in choice.options.items():
        if _try(corpus, choice.without(option)) is None:
            message = describe_error(choice.name, option, text, error)
            return FormError(message, f"s{place}.{option}", is_value=True)
    is_of_file = isinstance(error, VocabularyError)
    return FormError(f"{choice.name}: {error}" if is_of_file else str(error), f"s{place}")


def strategy_groups(corpus: Corpus) -> dict[str, list[str]]:
    """Return the strategies to choose from: those that are ready, and those that lack a file."""
    names = strategy_names()
    place = corpus.shards.place
    lacking = []
    if isinstance(place, Path):  # a remote folder would be asked for each file
        places = (place / "vocab", Path())
        lacking = [
            name
            for name in names
            if not all(
                any((folder / file).exists() for folder in places) for file in files_needed(name)
            )
        ]
    ready = sorted({*names, *corpus.added}.difference(lacking))
    return {"ready": ready, "needs a file": lacking} if lacking else {"ready": ready}


def strategy_forms(corpus: Corpus, state: State) -> list[StrategyForm]:
    """Return the form of each strategy, and an empty one to add a strategy."""
    forms = []
    for place, choice in enumerate(state.strategies, 1):
        if choice.name in corpus.added:
            forms.append(StrategyForm(place, choice, description="given by the command"))
            continue
        try:
            inputs = tuple(fields(choice.name, choice.options))
            forms.append(StrategyForm(place, choice, inputs, summary(choice.name).masks))
        except MslmDataError:
            forms.append(StrategyForm(place, choice))
    if len(forms) < MAX_STRATEGIES:
        forms.append(StrategyForm(len(forms) + 1))
    return forms

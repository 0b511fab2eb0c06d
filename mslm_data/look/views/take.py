"""The strategies and the view as TOML, Python and commands, to copy."""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import to_builtins

from mslm_data.io.toml import dump, inline
from mslm_data.look.corpus import Corpus
from mslm_data.look.state import Choice, State
from mslm_data.look.views import load_view
from mslm_data.mask.strategy import Strategy
from mslm_data.pipeline import parse_value
from mslm_data.stats.grid import has_both_rates

TITLE = "Take it with you"
TEMPLATE = "take.html"

_RATES = ("elm", "blm")


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the texts to copy."""
    folder = str(corpus.shards.folder)
    strategies = list(corpus.strategies(state.strategies).values())
    choices = [_given(corpus, choice) for choice in state.strategies]
    taken = [
        {
            "name": choice.name,
            "toml": _toml(choice, strategy),
            "python": _python(folder, state, choice),
            "command": _mask_stats(folder, state, choice),
            "sweep": _sweep(folder, state, choice) if has_both_rates(strategy) else "",
        }
        for choice, strategy in zip(choices, strategies, strict=True)
    ]
    view = corpus.last_view or state.view
    return {"taken": taken, "view": load_view(view).TITLE, "look": _look(corpus, state, view)}


def _given(corpus: Corpus, choice: Choice) -> Choice:
    """Return a choice with the options of the command, which the address does not have."""
    added = corpus.added.get(choice.name)
    return choice if added is None else Choice(choice.name, added.options)


def _toml(choice: Choice, strategy: Strategy) -> str:
    if strategy.origin is None or _is_code(choice.name) or choice.name.endswith(".toml"):
        return dump({"mask": strategy.table()})
    # Rates are written even at their defaults, which differ between strategies.
    rates = {
        option: to_builtins(value)
        for option, value in strategy.origin.options.items()
        if option in _RATES
    }
    options = {option: parse_value(text) for option, text in choice.options.items()}
    return dump({"mask": {"use": choice.name, **rates, **options}})


def _python(folder: str, state: State, choice: Choice) -> str:
    options = [f"{option}={parse_value(text)!r}" for option, text in choice.options.items()]
    own, arguments = "", ", ".join([repr(choice.name), *options])
    if _is_code(choice.name):
        module, _, function = choice.name.partition(":")
        own, arguments = f"import {module}\n", f"{module}.{function}({', '.join(options)})"
    return (
        f"import mslm_data as md\n{own}\n"
        f"shards = md.load({folder!r})\n"
        f"strategy = shards.strategy({arguments})\n"
        f"examples = shards[{state.split!r}].examples()\n"
        f"plan = strategy.plan(examples, seed={state.seed}, epoch={state.epoch})\n"
        "w_elm, w_blm = md.mask_specific_weights(*plan.counts())\n"
    )


def _mask_stats(folder: str, state: State, choice: Choice) -> str:
    words = ["mslm-data", "mask-stats", folder, *_words(state, [choice])]
    return shlex.join(words)


def _sweep(folder: str, state: State, choice: Choice) -> str:
    # The sweep replaces the rates.
    options = {option: text for option, text in choice.options.items() if option not in _RATES}
    return f"{_mask_stats(folder, state, Choice(choice.name, options))} --sweep"


def _look(corpus: Corpus, state: State, view: str) -> str:
    folders = [corpus.shards.folder, *([corpus.gold.shards.folder] if corpus.gold else [])]
    words = ["mslm-data", "look", *map(str, folders)]
    # The address names strategies of the command, so the command has to add them again.
    for choice in state.choices:
        if choice.name in corpus.added:
            words += ["--strategy", choice.name]
            for option, text in corpus.added[choice.name].options.items():
                words += ["--set", f"{choice.name}.{option}={inline(parse_value(text))}"]
    return shlex.join([*words, "--at", f"{view}?{state.address()}"])


def _words(state: State, choices: list[Choice]) -> list[str]:
    """Return command-line options for the split, the strategies and the seed."""
    words = ["--split", state.split]
    for choice in choices:
        words += ["--strategy", choice.name]
        for option, text in choice.options.items():
            value = parse_value(text)
            if option in _RATES and isinstance(value, int | float):
                words += [f"--{option}", text]
            else:
                words += ["--set", f"{option}={inline(value)}"]
    return [*words, "--seed", str(state.seed)]


def _is_code(name: str) -> bool:
    """Return whether a name is `module:name` of the user's own code."""
    return ":" in name and not name.endswith(".toml")

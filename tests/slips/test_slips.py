"""The list of slips is well-formed. `plant.py` tests the slips themselves, which takes minutes."""

from __future__ import annotations

from collections import Counter

from tests.slips.plant import ROOT, read_slips


def test_slips__have_different_ids_and_cover_every_room() -> None:
    slips = read_slips()

    assert [slip.id for slip in slips] == [f"S{number:02}" for number in range(1, 41)]
    folders = {path.parent.name for path in (ROOT / "mslm_data").glob("*/__init__.py")}
    assert folders - {slip.room for slip in slips} == {"draw"}


def test_slips__break_promises_of_security_and_durability() -> None:
    kinds = Counter(slip.kind for slip in read_slips())

    assert kinds.keys() == {"security", "durability", "behaviour"}
    assert kinds["security"] + kinds["durability"] >= 10


def test_slips__say_what_breaks_and_change_something() -> None:
    for slip in read_slips():
        assert slip.promise, slip.id
        assert slip.behaviour, slip.id
        assert slip.before, slip.id
        assert slip.before != slip.after, slip.id
        assert slip.tests, slip.id
        assert slip.by or not slip.caught, slip.id

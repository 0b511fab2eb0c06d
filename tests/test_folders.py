from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from mslm_data.folders import first_open, is_ours


def folder_of_a_stranger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of another user than the owner of this process."""
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    return folder


@pytest.mark.parametrize(("mode", "ours"), [(0o700, True), (0o755, True), (0o757, False)])
def test_is_ours__depends_on_the_mode(mode: int, ours: bool, tmp_path: Path) -> None:
    tmp_path.chmod(mode)

    assert is_ours(tmp_path) is ours


@pytest.mark.parametrize(
    ("name", "members", "ours"), [("me", [], True), ("me", ["me", "you"], False), ("us", [], False)]
)
def test_is_ours__accepts_group_write_access_of_a_private_group(
    name: str, members: list[str], ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On systems with one group per user, new folders are group-writable."""
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="me"))
    group = SimpleNamespace(gr_name=name, gr_mem=members)
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    tmp_path.chmod(0o775)

    assert is_ours(tmp_path) is ours


def test_is_ours__rejects_a_folder_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = folder_of_a_stranger(tmp_path / "theirs", monkeypatch)

    assert not is_ours(theirs)


def test_first_open__finds_a_parent_folder_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = folder_of_a_stranger(tmp_path / "theirs", monkeypatch)
    (theirs / "ours").mkdir()

    found = first_open(theirs / "ours")

    assert found is not None
    assert theirs.is_relative_to(found)


@pytest.mark.parametrize("way", ["{}/shared/mine", "{}/link/mine", "{}/closed/../link/mine"])
def test_first_open__follows_links(way: str, tmp_path: Path) -> None:
    (tmp_path / "shared" / "mine").mkdir(parents=True)
    (tmp_path / "closed").mkdir()
    (tmp_path / "link").symlink_to("shared")
    path = Path(way.format(tmp_path))
    assert first_open(path) is None

    (tmp_path / "shared").chmod(0o777)

    assert first_open(path) == tmp_path / "shared"


def test_first_open__finds_a_link_that_others_could_replace(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "shared").chmod(0o777)

    assert first_open(tmp_path / "shared" / "link") == tmp_path / "shared"
    assert first_open(tmp_path / "mine") is None

"""Uploads built folders to the Hugging Face hub, but not patients' text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mslm_data._version import __version__
from mslm_data.errors import PushError
from mslm_data.io.hub import check_repository_name, uploading
from mslm_data.shard.manifest import Manifest, read_manifest
from mslm_data.shard.verify import find_other_files, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The result of an upload.

    Attributes:
        repo: The full name of the repository on the hub.
        url: Its address.
        private: Whether only its owner, and those whom the owner lets in, can see it.
        files: Number of files.
        left_behind: The other files in the folder, which no build wrote.
    """

    repo: str
    url: str
    private: bool
    files: int
    left_behind: tuple[str, ...]


def push(folder: Path, repo: str, *, public: bool = False, share_protected: bool = False) -> Pushed:
    """Verify a folder and upload the files of its build; `vocab/` and others stay.

    Args:
        folder: A built folder.
        repo: `OWNER/NAME` of a dataset on the hub, or `NAME` for the user's own; made if it is
            missing.
        public: Whether everybody may see it; of a repository that exists, whether it may be a
            public one.
        share_protected: Upload patients' text too. Who says so answers for it.

    Raises:
        CallError: A text that cannot name a repository.
        ShardError: No built folder.
        PushError: It is protected, or not as its manifest says; or the hub refused, or could not be
            asked.
        MissingExtraError: The hub's client is not installed.
    """
    check_not_protected(folder, read_manifest(folder), share_protected=share_protected)
    check_repository_name(repo, wanted_by="`mslm-data push`")
    manifest, problems = verify(folder)
    if problems:
        first = f"{problems[0].place}: {problems[0].what}"
        number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise PushError(f"{folder}: the folder is damaged: {number}; the first: {first}")
    # Verifying takes a while, after which the folder may be another.
    check_not_protected(folder, manifest, share_protected=share_protected)
    files = manifest.files()
    with uploading(repo, wanted_by="`mslm-data push`") as api:
        url = api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
        made = url.repo_id
        private = bool(api.repo_info(made, repo_type="dataset").private)
        if not (private or public):
            raise PushError(f"{made}: the repository is public; pass --public to upload to it")
        api.upload_folder(
            repo_id=made,
            repo_type="dataset",
            folder_path=str(folder),
            allow_patterns=files,
            commit_message=f"{manifest.name}, built by mslm-data {__version__}",
        )
    return Pushed(
        repo=made,
        url=str(url),
        private=private,
        files=len(files),
        left_behind=tuple(find_other_files(folder, manifest)),
    )


def check_not_protected(folder: Path, manifest: Manifest, *, share_protected: bool) -> None:
    """Raise an error for patients' text, unless the caller shares it explicitly.

    Raises:
        PushError: The manifest marks the folder as protected.
    """
    if manifest.protected and not share_protected:
        raise PushError(
            f"{folder}: contains patients' text (token ids can be decoded); data use agreements "
            "forbid sharing it, even in a private repository; see --share-protected"
        )

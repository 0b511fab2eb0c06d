"""Decide which tasks of a build are possible, and do what lies between them.

The leading process does nothing that takes time in the size of the input: it hands tasks out and
adds up receipts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from mslm_data.builds.duplicates import is_matched, is_signed
from mslm_data.builds.finish import finish, receipts_of
from mslm_data.builds.folder import (
    discard_build,
    is_done,
    is_joined,
    keep_plan,
    mark_accepted,
    mark_refused,
    read_receipt,
    require_receipt,
)
from mslm_data.builds.looking import Looking
from mslm_data.builds.losses import refuse_losses, refuse_texts
from mslm_data.builds.plan import Plan, changed, make_plan, refuse_too_many
from mslm_data.builds.repeats import comparisons, keep_repeats, known_repeats
from mslm_data.builds.stages import Inputs
from mslm_data.builds.tasks import Compare, Digest, Join, Match, Sign, Task, WorkUnit, read_answer
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import BuildError
from mslm_data.shard.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a build is; never text.

    Attributes:
        done: Work units done, in earlier builds too.
        total: Work units; 0 as long as the input files are looked at.
        bytes_done: Bytes of input of the units done.
        bytes_total: Bytes of input.
        documents: Documents read.
        rows: Rows written.
    """

    done: int
    total: int
    bytes_done: int
    bytes_total: int
    documents: int
    rows: int


class Agenda:
    """The tasks of one build, from the first look at the files to the last shard.

    Attributes:
        manifest: Of the folder, once it is finished; None before, and where only a part was built.
    """

    def __init__(
        self,
        out: Path,
        inputs: Inputs,
        tokenizer: Tokenizer,
        identity: Mapping[str, Any],
        *,
        part: tuple[int, int] | None,
        progress: Callable[[Progress], None],
    ) -> None:
        """Begin with the files.

        Args:
            out: The folder.
            inputs: The files of each split.
            tokenizer: Makes the tokens.
            identity: From `plan.identity`.
            part: `(i, n)`: do every n-th unit, beginning with unit i (from 1), and then nothing.
            progress: Called as work units finish.
        """
        self._out = out
        self._inputs = inputs
        self._tokenizer = tokenizer
        self._identity = identity
        self._part = part
        self._progress = _Counter(out, progress)

        self._looking = Looking(inputs, staging=out / ".build" / "staging")
        self._plan: Plan
        self._all: list[WorkUnit]  # every unit of the plan
        self._missing: list[WorkUnit]  # those of this build that are not done
        self._waiting: set[str] = set()  # names of the tasks under way
        self._answers: dict[str, Any] = {}  # of the tasks under way that are done
        self._next: Callable[[], list[Task]] = self._units
        self._after: Callable[[], list[Task]] = self._over
        self.manifest: Manifest | None = None

    def first(self) -> list[Task]:
        """Return what can be done at once."""
        tasks = self._looking.tasks()
        return tasks or self._next()

    def done(self, text: str) -> Sequence[Task]:
        """Take a task's answer, and return the tasks that have become possible.

        Raises:
            BuildError: The folder follows another plan, documents of two files share an id, or too
                much of the corpus is lost.
            SourceError: An input has changed since the build began.
        """
        name, value = read_answer(text)
        if not self._looking.is_over():
            tasks = self._looking.take(name, value)
            return self._next() if self._looking.is_over() else tasks

        self._waiting.discard(name)
        self._progress.count(name)
        self._answers[name] = value
        return () if self._waiting else self._next()

    def _units(self) -> list[Task]:
        """Plan the build, and return the units that are not done."""
        self._plan = make_plan(self._inputs, self._looking, self._identity)
        keep_plan(self._out, self._plan, alone=self._part is None)

        units = known_repeats(self._out, self._plan.units)
        then = self._comparisons if units is None else self._digests
        self._all = units or self._plan.units

        # The pieces of a shard are removed when it is joined.
        joined = {
            unit.name
            for shard in self._plan.shards
            if is_joined(self._out, shard)
            for unit in shard.units
            if read_receipt(self._out, unit)
        }
        wanted = self._all
        if self._part is not None:
            wanted = wanted[self._part[0] - 1 :: self._part[1]]
        missing = [
            unit for unit in wanted if unit.name not in joined and not is_done(self._out, unit)
        ]
        self._progress.start(wanted, missing, self._plan.sizes)
        self._missing = missing
        self._after = self._over if self._part is not None else then
        return self._signs()

    def _signs(self) -> list[Task]:
        """Return the units to be signed, where copies are looked for and are not known yet."""
        is_wanted = self._plan.pipeline.duplicates != "keep" and self._missing
        if not is_wanted or is_matched(self._out, self._plan.units):
            return self._wait_for(self._missing, self._after)
        units = [unit for unit in self._plan.units if not is_signed(self._out, unit)]
        return self._wait_for([*map(Sign, units)], self._match)

    def _match(self) -> list[Task]:
        """Return the task that finds copies, after which the units can be done."""
        names = tuple((unit.split, unit.name) for unit in self._plan.units)
        return self._wait_for([Match(names)], lambda: self._wait_for(self._missing, self._after))

    def _over(self) -> list[Task]:
        """Leave the rest to other parts."""
        return []

    def _comparisons(self) -> list[Task]:
        """Return the comparisons of the ids of the units' documents."""
        return self._wait_for(comparisons(self._out, self._all), self._repeats)

    def _repeats(self) -> list[Task]:
        """Return the units to be done again, because their documents' ids came before."""
        self._all = keep_repeats(self._out, self._all, self._answers.values())
        again = [unit for unit in self._all if unit.repeated]
        return self._wait_for(again, self._digests)

    def _digests(self) -> list[Task]:
        """Return the tasks that digest the inputs again, which nothing reads from here on.

        Stamps do not show every change: a network file system may keep times to the second.
        """
        digests = self._looking.digests()
        return self._wait_for(digests, lambda: self._unchanged(digests))

    def _unchanged(self, digests: Sequence[Digest]) -> list[Task]:
        """Go on if the inputs are still those of the plan; else nothing of them is kept."""
        for digest in digests:
            for path in self._looking.changed(digest, self._answers[digest.name]):
                discard_build(self._out)
                raise changed(path)
        return self._joins()

    def _joins(self) -> list[Task]:
        """Return the shards that are not joined, unless too much of the corpus is lost."""
        receipts = receipts_of(self._out, self._plan)
        every = [*chain.from_iterable(receipts.values())]
        labels = self._labels()
        doc_labels = self._doc_labels()
        try:
            refuse_texts(
                self._plan.pipeline,
                labels=labels,
                mentions=sum(receipt.given_mentions for receipt in every),
                doc_labels=doc_labels or (),
                documents=sum(receipt.read - len(receipt.set_aside) for receipt in every),
            )
        except BuildError:
            discard_build(self._out)  # receipts have labels, and must not have text
            raise
        try:
            refuse_losses(self._inputs, receipts)
        except BuildError:
            mark_refused(self._out)
            raise
        mark_accepted(self._out)
        totals = self._plan.totals()
        joins = [
            Join(
                shard.split,
                shard.number,
                totals[shard.split],
                tuple(unit.name for unit in shard.units),
                labels,
                doc_labels,
            )
            for shard in self._plan.shards
            if not is_joined(self._out, shard)
        ]
        return self._wait_for(joins, self._finish)

    def _finish(self) -> list[Task]:
        self.manifest = finish(
            self._out, self._plan, self._labels(), self._doc_labels(), self._tokenizer
        )
        return []

    def _wait_for(
        self,
        tasks: Sequence[Sign | Match | WorkUnit | Compare | Digest | Join],
        then: Callable[[], list[Task]],
    ) -> list[Task]:
        """Return tasks, after which something else becomes possible; at once if there is none."""
        self._next = then
        self._answers = {}
        self._waiting = {task.name for task in tasks}
        return list(tasks) if tasks else then()

    def _labels(self) -> tuple[str, ...]:
        """Return the label of each index: the pipeline's, or those of the source, sorted."""
        pipeline = self._plan.pipeline
        if pipeline.annotate.labels:
            return pipeline.annotate.labels

        labels = {
            label for unit in self._plan.units for label in require_receipt(self._out, unit).labels
        }
        refuse_too_many(pipeline, [*labels])
        return tuple(sorted(labels))

    def _doc_labels(self) -> tuple[str, ...] | None:
        """Return the labels of documents, sorted; None where the source has none."""
        if not self._plan.pipeline.has_doc_labels:
            return None
        labels = {
            label
            for unit in self._plan.units
            for label in require_receipt(self._out, unit).doc_labels
        }
        refuse_too_many(self._plan.pipeline, [*labels])
        return tuple(sorted(labels))


class _Counter:
    """Turns names of finished units into progress."""

    def __init__(self, out: Path, progress: Callable[[Progress], None]) -> None:
        self._out = out
        self._progress = progress
        self._sizes: dict[str, tuple[WorkUnit, int]] = {}
        self._done: set[str] = set()
        self._bytes = 0
        self._documents = 0
        self._rows = 0

    def start(
        self, units: Sequence[WorkUnit], missing: Sequence[WorkUnit], sizes: Mapping[str, int]
    ) -> None:
        """Count the units that earlier builds have done.

        Args:
            units: Units of this build.
            missing: Units that are to be done.
            sizes: Name of a unit -> about how many bytes of input it has.
        """
        self._sizes = {unit.name: (unit, sizes[unit.name]) for unit in units}
        to_do = {unit.name for unit in missing}
        for name in self._sizes:
            if name not in to_do:
                self._add(name)
        self._tell()

    def count(self, name: str) -> None:
        """Count a unit, unless it was done again or is not a unit."""
        if name in self._sizes and name not in self._done:
            self._add(name)
            self._tell()

    def _add(self, name: str) -> None:
        unit, size = self._sizes[name]
        self._done.add(name)
        self._bytes += size
        receipt = read_receipt(self._out, unit)
        if receipt:
            self._documents += receipt.read
            self._rows += receipt.piece.rows

    def _tell(self) -> None:
        self._progress(
            Progress(
                done=len(self._done),
                total=len(self._sizes),
                bytes_done=self._bytes,
                bytes_total=sum(size for _, size in self._sizes.values()),
                documents=self._documents,
                rows=self._rows,
            )
        )

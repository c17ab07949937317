"""A process's access to the files: whatever a store does is done through here, under the lock or without it."""

from __future__ import annotations

import os

from jobq.errors import Conflict, NotFound, StoreError, StoreMoved, StoreUnreadable
from jobq.files import unavailable
from jobq.light import contextmanager
from jobq_json.directory import Directory
from jobq_json.generation import Generation
from jobq_json.manifest import WAY_OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    from jobq.clock import Clock
    from jobq.notices import Notice
    from jobq_json.kept import Kept
    from jobq_json.manifest import Manifest
    from jobq_json.view import Place, View

    T = TypeVar("T")

BLIND_LIMIT = 32 << 20
"""Bytes of journal beyond which a process that only adds compacts too; the first reader has to replay them."""

LEAST = 1 << 20
"""Bytes of journal below which no process compacts."""

_PAUSE = 4 << 20
"""Bytes by which the journal grows before a compaction that failed is tried again."""

_ATTEMPTS = 100


class Access:
    """Access to the store in one directory: its lock, and the generation in force. Opened again after a fork.

    Args:
        path: the directory; it need not exist before something is written.
        clock: says when a generation was made.
        durable: whether what is written is synced before it is acknowledged.
        mark: as of `Directory`.
        warn: is told of trouble that stops nothing, in one sentence.

    Attributes:
        directory: the directory.
    """

    def __init__(
        self, path: str, clock: Clock, *, durable: bool, warn: Callable[[str], None], mark: str | None = None
    ) -> None:
        self._path, self._clock, self._durable, self._warn, self._mark = path, clock, durable, warn, mark
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        allowed = os.environ.get("JOBQ_ALLOW_NETWORK_FS") == "1"
        self.directory = Directory(self._path, self._clock, allow_network=allowed, mark=self._mark)
        self._generation: Generation | None = None
        self._distrusted = 0
        self._compact_above = 0

    def asked(self, ask: Callable[[View], T], empty: T) -> T:
        """What `ask` answers of the store as it is now, without a lock; `empty` where nothing was ever stored.

        Raises:
            StoreError: the store cannot be read.
        """
        return self._current(lambda generation: ask(generation.view()), empty)

    def read(self, ask: Callable[[View], T], empty: T) -> T:
        """As `asked`, where the store's notice lets its jobs be read.

        Raises:
            StoreMoved: it does not.
        """

        def heeding(generation: Generation) -> T:
            generation.heed("read")
            return ask(generation.view())

        return self._current(heeding, empty)

    def look(self) -> View | None:
        """The view of the store as it is now; None where nothing was ever stored."""
        return self.asked(lambda view: view, None)

    def look_for(self, ids: list[str]) -> None:
        """Look without the lock for ids that are about to be added, as far as that can be done."""
        if ids:
            self._current(lambda generation: generation.finder().look_for(ids), None)

    @contextmanager
    def writing(self) -> Iterator[Generation]:
        """Hold the lock, with a journal that may be written to. The first time, the store is made.

        Trouble drops the view: it may have run ahead.

        Raises:
            StoreError: the lock cannot be had, or the store cannot be read.
        """
        self._after_fork()
        try:
            with self.directory.locked() as current:
                manifest = self._renew(current) if current.generation == self._distrusted else current
                generation = self._enter(manifest, writing=True)
                generation.journal.tail()
                yield generation
        except (Conflict, NotFound, StoreMoved):
            raise
        except FileNotFoundError as error:
            self.forget()
            raise StoreUnreadable(f"{error.filename} is missing; {WAY_OUT}") from None
        except BaseException as error:
            if self._generation is not None:
                self._heed_loss(self._generation)
                self._generation.drop_view()
            if isinstance(error, OSError):
                raise unavailable(error, self._path) from None
            raise

    @contextmanager
    def changing(self, ids: Iterable[str]) -> Iterator[tuple[Generation, View, dict[str, tuple[Kept, Place]]]]:
        """As `writing`, with the jobs of these ids, which are looked for before the lock is taken."""
        ids = tuple(ids)
        nothing: tuple[View | None, dict[str, tuple[Kept, Place]]] = None, {}
        before, found = self.asked(lambda view: (view, view.locate(ids)), nothing)
        with self.writing() as generation:
            view = generation.view_locked()
            if view is before:
                unchanged = {job_id: found[job_id] for job_id in ids if job_id not in view.delta and job_id in found}
                found = view.locate([job_id for job_id in ids if job_id in view.delta]) | unchanged
            else:
                found = view.locate(ids)
            yield generation, view, found

    def settle(self, generation: Generation, *, ring: bool) -> None:
        """After the lock: wake others, make durable what was written, compact where that is due.

        Raises:
            StoreError: what was written cannot be made durable; it is not acknowledged.
        """
        if ring:
            self.directory.ring()
        journal = generation.journal
        if self._durable:
            try:
                journal.sync()
            except OSError:
                self._heed_loss(generation)
                with self.writing():  # publishes a new generation, or raises
                    pass
                return
        if journal.end > max(LEAST, self._compact_above) and (generation.viewed or journal.end > BLIND_LIMIT):
            from jobq_json.compaction import worth_it

            self._compact_if(worth_it, journal.end)

    def rest(self) -> None:
        """Compact where it is worth it for whoever reads next, and give memory back."""
        from jobq_json.compaction import give_back_memory, worth_it_now

        generation = self._generation
        if generation is not None and generation.viewed:
            self._compact_if(worth_it_now, generation.journal.end)
            give_back_memory()

    def compact(self) -> bool:
        """Make a new generation, unless another process is about it; whether it was made.

        Raises:
            StoreError: it could not be made; the old one stands.
        """
        from jobq_json.compaction import compact, give_back_memory

        view = self.look()
        if view is None or not compact(self.directory, view):
            return False
        self._compact_above = 0
        self.forget()
        give_back_memory()
        return True

    def notice(self) -> Notice | None:
        """The notice at the store's door."""
        self._after_fork()
        current = self.directory.current()
        return None if current is None else current.notice

    def post(self, notice: Notice | None, *, before: Notice | None, url: str) -> None:
        """Put up a notice in place of `before`, or take that down, by a new generation; the first time, the store is
        made.

        Raises:
            NoticeChanged: another notice stands there.
            NotEmpty: jobs are to arrive where others are.
            StoreError: it could not be made; the old one stands.
        """
        from jobq_json.compaction import nobody_else
        from jobq_json.posting import posted

        self.create()
        with nobody_else(self.directory):
            while (view := self.look()) is not None and not posted(self.directory, view, notice, before, url):
                self.forget()
        self.forget()
        self._compact_above = 0
        self.directory.ring()

    def create(self) -> None:
        """Make the store where there is none yet."""
        self._after_fork()
        with self.directory.locked():
            pass

    def repair(self) -> list[str]:
        """Make the store usable again; what was done, one sentence each.

        Raises:
            StoreError: it cannot be mended.
        """
        from jobq_json.repairing import repair

        self._after_fork()
        self.forget()
        done = repair(self.directory, warn=self._warn)
        self.directory.close()
        self._open()
        return done

    def forget(self) -> None:
        """Drop the generation that is open; the one in force is opened when needed."""
        if self._generation is not None:
            self._generation.close()
            self._generation = None

    def close(self) -> None:
        """Free everything."""
        self.forget()
        self.directory.close()

    def _compact_if(self, worth_it: Callable[..., bool], size: int) -> None:
        try:
            view = self.look()
            if view is not None and worth_it(view, size, least=LEAST):
                self.compact()
        except (StoreError, OSError) as error:  # what was to be done is done and durable; the journal grows on
            self._compact_above = size + _PAUSE
            if self._generation is not None:
                self._generation.drop_view()
            self._warn(f"the store could not be compacted: {error}")

    def _heed_loss(self, generation: Generation) -> None:
        if generation.journal.lost:
            self._distrusted = generation.manifest.generation

    def _renew(self, manifest: Manifest) -> Manifest:
        """Under the lock: leave a journal whose sync failed behind; the manifest of the generation after it.

        A generation published by somebody else since holds what was in the journal, synced.
        """
        from jobq_json.compaction import compact_locked, only_one

        with only_one(self.directory) as alone:
            compact_locked(self.directory, self._enter(manifest).view(), alone=alone)
        self._distrusted = 0
        self.forget()
        renewed = self.directory.current()
        if renewed is None:
            raise StoreUnreadable(f"the store in {self._path} was removed while it was in use")
        return renewed

    def _enter(self, manifest: Manifest, *, writing: bool = False) -> Generation:
        generation = self._generation
        if generation is None or generation.manifest is not manifest:  # the same number may be of another store
            self.forget()
            generation = self._generation = Generation(
                self.directory, manifest, self._warn, writing=writing, durable=self._durable
            )
        return generation

    def _current(self, ask: Callable[[Generation], T], empty: T) -> T:
        """What `ask` answers of the generation in force; `empty` where nothing was ever stored.

        A generation may be replaced, and its files removed, while it is being opened: then the next one is asked.
        """
        self._after_fork()
        before: Manifest | None = None
        missing: object = self._path
        for _ in range(_ATTEMPTS):
            manifest = self.directory.current()
            if manifest is None:
                return empty
            if manifest is before:
                break
            before = manifest
            try:
                return ask(self._enter(manifest))
            except FileNotFoundError as error:
                self.forget()
                missing = error.filename
            except OSError as error:
                raise unavailable(error, self._path) from None
        raise StoreUnreadable(f"{missing} is missing; {WAY_OUT}")

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self.close()
            self._open()

"""One generation of the store, as a process has it open."""

from __future__ import annotations

from jobq_json.journal import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.job import Job
    from jobq_json.directory import Directory
    from jobq_json.finder import Finder
    from jobq_json.manifest import Manifest
    from jobq_json.view import View


class Generation:
    """The journal of a generation; its view and its finder of ids, each made when first asked for.

    Args:
        directory: the store's.
        manifest: of the generation.
        warn: is told of every damaged record, in one sentence.
        writing: whether its journal will be written to.
        durable: whether what is written will be synced.

    Raises:
        FileNotFoundError: the generation is over, and its files are gone.
    """

    def __init__(
        self,
        directory: Directory,
        manifest: Manifest,
        warn: Callable[[str], None],
        *,
        writing: bool = False,
        durable: bool = False,
    ) -> None:
        self.manifest = manifest
        self.journal = Journal(directory, manifest, writing=writing, durable=durable)
        self._directory, self._warn = directory, warn
        self._view: View | None = None
        self._finder: Finder | None = None

    @property
    def viewed(self) -> bool:
        """Whether there is a view."""
        return self._view is not None

    def view(self) -> View:
        """The view, up to date.

        Raises:
            FileNotFoundError: the generation is over.
            StoreError: what the files hold is not to be understood.
        """
        return self._view_to(self.journal.size)

    def view_locked(self) -> View:
        """As `view`, under the writers' lock, where nobody else adds to the journal."""
        return self._view_to(self.journal.end)

    def drop_view(self) -> None:
        """Forget the view: it may have run ahead of the files."""
        self._view = None

    def finder(self) -> Finder:
        """What finds ids without a view.

        Raises:
            FileNotFoundError: the generation is over.
        """
        if self._finder is None:
            from jobq_json.finder import Finder

            self._finder = Finder(self._directory, self.manifest, self.journal)
        return self._finder

    def heed(self, act: str, before: Job | None = None) -> None:
        """Refuse what the store's notice, where it has one, does not allow; as `jobq.notices.heed`.

        Raises:
            StoreMoved: it is not allowed.
        """
        if self.manifest.notice is not None:
            from jobq.notices import heed

            heed(self.manifest.notice, act, before)

    def append(self, view: View, record: str) -> None:
        """Under the lock: write to the journal what was done to the view; nothing where the record is empty.

        Raises:
            StoreUnavailable: nothing was written.
        """
        if record:
            view.position = self.journal.append(record, next_seq=view.seq)

    def close(self) -> None:
        """Free everything."""
        self.journal.close()
        self._view = self._finder = None

    def _view_to(self, end: int) -> View:
        view = self._view
        if view is None or end < view.position:
            from jobq_json.view import View

            self._view = None
            view = self._view = View(self._directory, self.manifest, self.journal, self._warn)
        elif end > view.position:
            try:
                view.refresh()
            except BaseException:
                self._view = None
                raise
        return view

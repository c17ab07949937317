"""The store's directory: its manifest as it is now, the writers' lock, the bell, and the first generation.

A `Directory` keeps its descriptors open for as long as the store's handle lives, and notices when the manifest was
replaced. Reading needs no lock and creates nothing.
"""

from __future__ import annotations

import os

from jobq import files
from jobq.bell import CONTENT, Bell
from jobq.errors import StoreUnavailable, StoreUnreadable
from jobq.light import contextmanager, suppress
from jobq.times import format_time
from jobq_json import manifest
from jobq_json.lines import sound
from jobq_json.locking import LOCK, WritersLock
from jobq_json.manifest import NAME, WAY_OUT, Manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from jobq.clock import Clock

MARK_TEXT = b"""\
jobq keeps jobs in the directory beside this file. Should that be gone while this file is here, jobq says so instead of
beginning with an empty queue.
"""

COMPACT_LOCK, BELL = "compact.lock", "bell"
_MOUNTS = "/proc/self/mountinfo"
_NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "fuse.sshfs"))


class Directory:
    """The store's directory.

    Args:
        path: where; it need not exist before something is written.
        clock: says when a manifest was written.
        allow_network: whether a network file system is accepted.
        mark: a file elsewhere that is made with the store, to know by it that there was one; None: without.
    """

    def __init__(self, path: str, clock: Clock, *, allow_network: bool, mark: str | None = None) -> None:
        self.path, self._clock, self._mark = path, clock, mark
        self._manifest_path = f"{path}/{NAME}"  # to join with `/` costs more than to ask for the file
        self._lock = WritersLock(path)
        self._allow_network = allow_network
        self._manifest: Manifest | None = None
        self._version: tuple[int, int, int] | None = None
        self._bell = Bell(f"{path}/{BELL}")
        self._manifest_fd = -1
        self._checked = self._marked = False

    def current(self) -> Manifest | None:
        """The manifest as it is now; None where nothing was ever stored here.

        Raises:
            StoreUnreadable: it is missing although there is or was data, or is damaged.
            NewerFormat: a newer jobq wrote it.
        """
        try:
            facts = os.stat(self._manifest_path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            if self._version is not None:
                raise self._exchanged from None
            self._refuse_orphans()
            if self.is_lost():
                raise StoreUnreadable(
                    f"the store in {self.path} is gone: it was there, and nothing of it is left; put back a backup, "
                    "or `jobq doctor --repair` begins an empty one"
                ) from None
            return None
        except OSError as error:
            raise files.unavailable(error, self._manifest_path) from None
        if _version(facts) != self._version:
            self._check()
            with suppress(FileNotFoundError):  # removed this very moment: the next look says so
                self._read_manifest()
        return self._manifest

    def is_lost(self) -> bool:
        """Whether the store was made once, and nothing of it is left."""
        return self._mark is not None and os.path.lexists(self._mark) and not self._data_files()

    def strange(self) -> list[str]:
        """What lies in it and is neither data nor a lock nor a bell."""
        return sorted({*self.names()} - {*self._data_files(), LOCK, COMPACT_LOCK, BELL})

    def time(self) -> str:
        """The time, as a manifest says when it was written."""
        return format_time(self._clock.now())

    def content(self, name: str) -> bytes:
        """All of a file."""
        with open(self.open(name), "rb") as file:
            return file.read()

    def has(self, name: str) -> bool:
        """Whether there is a file of this name.

        Raises:
            StoreUnavailable: the system does not tell.
        """
        try:
            os.lstat(f"{self.path}/{name}")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise files.unavailable(error, f"{self.path}/{name}") from None
        return True

    def open(self, name: str) -> int:
        """A descriptor to read a file through.

        Raises:
            FileNotFoundError: it is not there.
        """
        return files.open_private(f"{self.path}/{name}", os.O_RDONLY)

    def held(self) -> AbstractContextManager[None]:
        """Hold the writers' lock.

        Raises:
            StoreLocked: somebody held it for long.
            StoreUnavailable: the system refused.
        """
        return self._lock.held(self.open_for_writing)

    @contextmanager
    def locked(self) -> Iterator[Manifest]:
        """Hold the writers' lock; the manifest under it. The first time, the store is made.

        Raises:
            StoreLocked: somebody held the lock for long.
            StoreUnavailable: the system refused.
        """
        if self._version is None:
            self.current()  # of a store that is gone nothing is made: a backup is to be put in its place
        with self.held():
            current = self.current() or self.begin()
            self._leave_mark()
            yield current

    def ring(self) -> None:
        """Wake the workers that wait for something to do."""
        self._bell.ring()

    def put_in_force(self, prepared: str) -> None:
        """Replace the manifest by one that `prepare` wrote. Everything it names is on the disk already.

        Raises:
            StoreUnavailable: the old one stands.
        """
        try:
            os.replace(f"{self.path}/{prepared}", f"{self.path}/{NAME}")
        except OSError as error:
            raise files.unavailable(error, f"{self.path}/{NAME}") from None

    def sync(self) -> None:
        """Bring the directory's entries to the disk.

        Raises:
            StoreUnavailable: it is unknown which manifest the disk has.
        """
        try:
            files.sync_directory(self.path)
        except OSError as error:
            raise files.unavailable(error, self.path) from None

    def prepare(self, new: Manifest) -> str:
        """Write a manifest beside the one in force, synced; the file's name."""
        name = f".{NAME}.{os.getpid()}.{new.generation}.new"
        self.write(name, [new.dump()])
        return name

    def create(self, name: str, *, again: bool = True) -> int:
        """A descriptor to append to a new file through. What was left under its name is removed, not written to.

        Raises:
            StoreUnavailable: the system refused.
            FileExistsError: there is one of that name, and it is not to be made `again`.
        """
        try:
            with suppress(FileNotFoundError):
                if again:
                    os.unlink(f"{self.path}/{name}")
        except OSError as error:
            raise files.unavailable(error, f"{self.path}/{name}") from None
        return files.open_private(f"{self.path}/{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def write(self, name: str, parts: list[bytes]) -> None:
        """Write a new file, synced."""
        descriptor = self.create(name)
        try:
            for part in parts:
                files.write_all(descriptor, part)
            files.sync(descriptor)
        except OSError as error:
            raise files.unavailable(error, f"{self.path}/{name}") from None
        finally:
            os.close(descriptor)

    def sweep(self, kept: frozenset[str]) -> None:
        """Remove the data files that are not in `kept`, and manifests that never came into force."""
        for name in self._data_files():
            if name not in kept:
                with suppress(OSError):
                    os.unlink(f"{self.path}/{name}")

    def close(self) -> None:
        """Free the descriptors."""
        self._lock.close()
        self._bell.close()
        if self._manifest_fd >= 0:
            os.close(self._manifest_fd)
            self._manifest_fd = -1
        self._version = None

    def names(self) -> list[str]:
        """What all files in it are called, sorted; none where it is not there.

        Raises:
            StoreUnavailable: the system refused.
        """
        try:
            return sorted(os.listdir(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise files.unavailable(error, self.path) from None

    def _data_files(self) -> list[str]:
        ours = ("jobs-", "journal-", "done-", "damaged-", f".{NAME}.")
        return [name for name in self.names() if name == NAME or name.startswith(ours)]

    def _refuse_orphans(self) -> None:
        """Raise where there is data without a manifest. A first generation that holds nothing is no data."""
        for name in self._data_files():
            if name == "jobs-1.jsonl":
                header = manifest.run_header(1)
            elif name == "journal-1.jsonl":
                header = manifest.journal_header(1, 1)
            elif name.startswith("."):
                continue
            else:
                header = b""
            with suppress(FileNotFoundError):
                if os.path.getsize(f"{self.path}/{name}") > len(header) or not header.startswith(self._whole(name)):
                    if os.path.exists(f"{self.path}/{NAME}"):
                        return
                    raise StoreUnreadable(f"the store's manifest, {self.path}/{NAME}, is missing; {WAY_OUT}")

    def _whole(self, name: str) -> bytes:
        """What of a file's content may have been meant: after loss of power the rest may be zeros."""
        return self.content(name).rstrip(b"\0")

    def _read_manifest(self) -> None:
        """Read the manifest, and keep it open: no other file gets its inode number as long as it is."""
        descriptor = self.open(NAME)
        try:
            facts = os.fstat(descriptor)
            found = manifest.read(os.pread(descriptor, facts.st_size, 0))
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise files.unavailable(error, self._manifest_path) from None
            raise
        if self._version is not None and self._manifest is not None:
            ahead = found.generation - self._manifest.generation  # one store only ever goes on to the next
            if ahead < 0 or (ahead == 0 and facts.st_ino != self._version[0]):
                os.close(descriptor)
                self.close()
                raise self._exchanged
            os.close(self._manifest_fd)
        self._manifest, self._manifest_fd, self._version = found, descriptor, _version(facts)

    @property
    def _exchanged(self) -> StoreUnreadable:
        return StoreUnreadable(f"the store in {self.path} was removed or replaced while it was in use")

    def _check(self) -> None:
        if self._checked:
            return
        with suppress(FileNotFoundError):
            facts = files.check_directory(self.path)
            if not self._allow_network:
                _refuse_network(self.path, facts.st_dev)
            self._checked = True

    def open_for_writing(self) -> None:
        """Make the directory where there is none, and open its lock.

        Raises:
            StoreUnavailable: the system refused.
            NotSupported: the directory lies on a network file system.
        """
        if self._lock.opened:
            return
        with suppress(OSError):  # most often it is there; else making it tells what is wrong
            self._check()
        if not self._checked:
            files.private_directory(self.path)
            self._check()
        self._lock.open()

    def begin(self) -> Manifest:
        """Make the first generation, which holds nothing; the lock is held.

        Raises:
            StoreUnavailable: the system refused.
        """
        first = manifest.first(self.time())
        self.write(BELL, [CONTENT])
        self.write(first.jobs_file, [manifest.run_header(1)])
        self.write(first.journal_file, [manifest.journal_header(1, 1)])
        self.put_in_force(self.prepare(first))
        self.sync()
        files.sync_directory(os.path.dirname(self.path))
        created = self.current()
        if created is None:
            raise StoreUnavailable(f"{self.path} was removed while the store was made")
        return created

    def _leave_mark(self) -> None:
        """Make the mark, once the store is there: the other way round, a making that is interrupted would be a loss."""
        if self._marked or self._mark is None:
            return
        if not os.path.lexists(self._mark):
            files.replace(self._mark, MARK_TEXT, durable=True)
        self._marked = True


def check_header(line: bytes, kind: str, name: str) -> None:
    """Check the first line of a data file.

    Raises:
        StoreUnreadable: it is not the header of that kind of file.
    """
    if not sound(line) or not line.startswith(b'{"jobq":"%b",' % kind.encode()):
        raise StoreUnreadable(f"{name} is damaged at its beginning; {WAY_OUT}")


def _version(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _refuse_network(path: str, device: int) -> None:
    """Raise where the directory, on that device, lies on a network file system: caches there break locks and maps."""
    if os.major(device) != 0:  # a disk of this machine
        return
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            for line in file:
                fields, _, rest = line.partition(" - ")
                kind = rest.split(" ", 1)[0]
                if fields.split(" ", 3)[2] == f"{os.major(device)}:{os.minor(device)}" and kind in _NETWORK:
                    from jobq.errors import NotSupported

                    raise NotSupported(
                        f"{path} lies on a network file system ({kind}), where locks and maps cannot be trusted; "
                        "JOBQ_ALLOW_NETWORK_FS=1 uses it all the same"
                    )
    except OSError:
        return

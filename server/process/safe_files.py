"""Files in folders that others may write, such as a cloned repository: read and replaced where they are, and never where
a link in such a folder leads.

It imports little: a thin client reads a repository's configuration with it.
"""

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False  # as type checkers take it: a thin client does without typing
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_HAS_FOLDERS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
"""Whether files can be opened relative to an open folder, so that no other process can exchange the folder meanwhile."""


class UnsafeFile(OSError):
    """A file that is not what it should be. ``strerror`` says why, without the path."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(errno.EINVAL, why, path)


def open_regular(path: str, *, follow: bool = True, owners: tuple[int, ...] = ()) -> int:
    """A descriptor to read a file, opened without waiting for a writer. ``follow``: whether the path itself may be a
    link; ``owners``: the allowed owners, any if empty. Raises UnsafeFile for what is not a file, OSError."""
    descriptor = _open_without_waiting(path, follow=follow)
    # Checked on the open descriptor, so that the file cannot be exchanged after the check.
    try:
        found = os.fstat(descriptor)
        # A FIFO would block its reader, and a device could deliver data without end.
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeFile(path, "it is no regular file")
        if owners and hasattr(os, "getuid") and found.st_uid not in owners:
            raise UnsafeFile(path, "it belongs to another user")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: str, most: int, *, follow: bool = True, owners: tuple[int, ...] = ()) -> bytes:
    """The bytes of a file from its beginning, at most ``most``. Raises as ``open_regular``."""
    with open(open_regular(path, follow=follow, owners=owners), "rb") as file:
        return file.read(most)


def replace_file(path: str, content: bytes, *, top: str = "", mode: int = 0o666, new: bool = False) -> None:
    """Put a file with this content in its place, as ``replacing`` does."""
    with replacing(path, top=top, mode=mode, new=new) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: str, *, top: str = "", mode: int = 0o666, new: bool = False) -> "Iterator[BinaryIO]":
    """A file to write, which takes its place whole at the end, with the mode and the owner of the one before; if the
    writing fails, everything stays as it was.

    ``top``: a folder that others may write: neither the file nor a folder between the two may be a link, and folders that
    are missing are made. Without it the file is the person's own, and a link leads to where it really is. ``mode``: of a
    file that was not there, less what the process takes away. ``new``: it must not be there yet. Raises UnsafeFile for a
    link, another user's file, or what is not a file; FileExistsError; OSError.
    """
    path = os.path.abspath(path)
    if not top:
        path = os.path.realpath(path)
        top = os.path.dirname(path)
        os.makedirs(top, exist_ok=True)
    folder = _open_folder(path, top)
    name = os.path.basename(path)
    # A random name, and O_EXCL below, so that no other process can prepare a link under it.
    part = f".{name}.{os.urandom(6).hex()}.part"
    try:
        before = _check_replaced(path, name, folder)
        if new and before is not None:
            raise FileExistsError(errno.EEXIST, "it exists", path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_BINARY", 0)
        descriptor = os.open(_in(folder, path, part), flags, mode, **_at(folder))
        try:
            with open(descriptor, "wb") as file:
                if before is not None:
                    _keep_owner_and_mode(descriptor, before)
                yield file
                file.flush()
                # The content must be on disk before the name points to it, or a power failure leaves an empty file.
                os.fsync(descriptor)
            _take_place(folder, path, part, name, new=new)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(_in(folder, path, part), **_at(folder))
            raise
        # The rename itself is an entry of the folder, which has to be on disk as well.
        if folder >= 0:
            os.fsync(folder)
    finally:
        if folder >= 0:
            os.close(folder)


def remove_file(path: str, *, top: str) -> None:
    """Remove a file below ``top``, as ``replacing`` finds it: through no link. Raises UnsafeFile, OSError."""
    path = os.path.abspath(path)
    folder = _open_folder(path, top)
    try:
        os.unlink(_in(folder, path, os.path.basename(path)), **_at(folder))
    finally:
        if folder >= 0:
            os.close(folder)


def is_there(path: str) -> bool:
    """Whether a name is in use, also by a link that leads nowhere."""
    return os.path.lexists(path)


def find_top(path: str) -> str:
    """The folder of the repository that a path is in, by its name and not by where links lead; else the path's folder."""
    folder = first = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return first
        folder = above
    return folder


def _open_without_waiting(path: str, *, follow: bool) -> int:
    if not follow and not _NO_FOLLOW and os.path.islink(path):
        raise UnsafeFile(path, "it is a link")
    try:
        return os.open(path, os.O_RDONLY | _NO_WAIT | (0 if follow else _NO_FOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise UnsafeFile(path, "it is a link") from None
        # A socket cannot be opened, and fails in one of these ways.
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):
            raise UnsafeFile(path, "it is no regular file") from None
        raise


def _open_folder(path: str, top: str) -> int:
    """The folder of a path below ``top``, opened from there step by step; -1 where the system cannot."""
    top = os.path.abspath(top)
    between = os.path.relpath(os.path.dirname(path), top)
    if between == os.curdir:
        steps = []
    else:
        steps = between.split(os.sep)
    if os.pardir in steps or os.path.isabs(between):
        raise UnsafeFile(path, f"it is not in {top}")
    if not _HAS_FOLDERS:
        _check_folders(top, steps)
        return -1
    # Each folder is opened from the one above, so that no link can be put in between.
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for step in steps:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, dir_fd=folder)
            inner = os.open(step, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UnsafeFile(path, f"the folder {step} is a link, or no folder") from None
            raise
        finally:
            os.close(folder)
        folder = inner
    return folder


def _check_folders(top: str, steps: list[str]) -> None:
    folder = top
    for step in steps:
        folder = os.path.join(folder, step)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        if os.path.islink(folder) or not os.path.isdir(folder):
            raise UnsafeFile(folder, f"the folder {step} is a link, or no folder")


def _check_replaced(path: str, name: str, folder: int) -> "os.stat_result | None":
    try:
        before = os.stat(_in(folder, path, name), follow_symlinks=False, **_at(folder))
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(before.st_mode):
        raise UnsafeFile(path, "it is a link; put a file in its place, or remove it")
    if not stat.S_ISREG(before.st_mode):
        raise UnsafeFile(path, "it is no regular file")
    # Replacing another user's file would take it over.
    if hasattr(os, "geteuid") and os.geteuid() not in (0, before.st_uid):
        raise UnsafeFile(path, "it belongs to another user")
    return before


def _keep_owner_and_mode(descriptor: int, before: "os.stat_result") -> None:
    # Only root may give a file away; for other users the owner is already the same.
    if hasattr(os, "fchown") and os.geteuid() == 0:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _take_place(folder: int, path: str, part: str, name: str, *, new: bool) -> None:
    if folder < 0:
        (os.rename if new else os.replace)(_in(folder, path, part), path)
    elif new:
        # A link fails if the name exists, where a rename would silently replace the file.
        os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(part, dir_fd=folder)
    else:
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def _in(folder: int, path: str, name: str) -> str:
    if folder >= 0:
        return name
    return os.path.join(os.path.dirname(path), name)


def _at(folder: int) -> dict[str, int]:
    if folder >= 0:
        return {"dir_fd": folder}
    return {}

"""Which project a folder belongs to, found by reading files: git's own are read here, and git is never run.

A project is a resource of its own. Clones and worktrees of one remote are one project; a repository without a remote is
known by the folder of its git files, which its worktrees share; any other folder is known by its path. The folders above
a person's files (the home folder, the root, those of installed programs) are no project. A name that a repository's own
configuration gives counts once the user has confirmed it.
"""

import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence

try:  # hashlib loads OpenSSL, which is a fifth of a thin client's memory
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

from layerlore.server.process.safe_files import read_regular, replace_file

PREFIX = "project:"
"""How the resource of a project begins."""
AUTO, NONE = "auto", "none"
"""Words in place of a project's name: that of the folder, and no project."""
MOST_CHARS = 200
"""The longest name of a project; a longer one ends in a hash."""
CONFIRMED = "projects.json"
"""The file in the data folder that has the confirmed names of projects by their repository's git folder."""

_MOST_BYTES = 1024 * 1024
# A clone of a clone of a clone ...
_MOST_CLONES = 5
# Hosts that take the names of owners and repositories in either case.
_CASELESS = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
# The names under which forges are reached where only HTTPS's port is open, and by ssh alone.
_OTHER_NAMES = {
    "ssh.github.com": "github.com",
    "www.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
    "ssh.dev.azure.com": "dev.azure.com",
}
_SECTION = re.compile(r'\A\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_NAMED = re.compile(r"\A([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_SCHEME = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_DRIVE = re.compile(r"/?[A-Za-z]:[\\/]")
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_UNWANTED = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]+")


def project_resource(name: str) -> str:
    """The resource that has the memory of the project with this name. A name that begins with PREFIX is one already."""
    return PREFIX + clean_name(name.removeprefix(PREFIX))


def is_project(resource: str) -> bool:
    """Whether a resource is a project's."""
    return resource.startswith(PREFIX)


class FoundProject:
    """The project of a folder. ``name``: "" for no project; ``claimed``: the name that the repository in the folder
    ``git`` gives itself, and that the user has not confirmed, "" if none exists."""

    __slots__ = ("claimed", "git", "name")

    def __init__(self, name: str = "", claimed: str = "", git: str = "") -> None:
        self.name = name
        self.claimed = claimed
        self.git = git


def choose_project(wanted: str, folder: str, data_dir: str) -> str:
    """The resource of the project that a launch asks for; "" for none. ``wanted``: a name, AUTO, NONE or "" as NONE;
    ``folder``: where it works, for AUTO. A name that waits for the user is named on standard error. Raises nothing."""
    if wanted.lower() in ("", NONE):
        return ""
    if wanted.lower() != AUTO:
        return project_resource(wanted)
    found = find_project(folder, data_dir)
    if found.claimed:
        # A thin client may have no standard error, and a warning must not stop the launch.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            # The plain name, since `process.program` loads more than a thin client should wait for.
            command = f"layerlore --data-dir {shlex.quote(data_dir)} project --confirm"
            sys.stderr.write(f"layerlore: {describe_claim(found)}; `{command}` confirms it\n")
    if found.name:
        return project_resource(found.name)
    return ""


def describe_claim(found: FoundProject) -> str:
    """For people: the name that a repository gives itself, and the one that counts instead."""
    return f"{found.git} names its project {found.claimed!r}, which is not confirmed: {found.name!r} is used"


def confirm_project(folder: str, data_dir: str) -> str:
    """Let the name count that the folder's repository gives its project. Returns it; "" if none waits. Raises OSError."""
    found = find_project(folder, data_dir)
    if found.claimed:
        names = {**_read_confirmed(data_dir), found.git: found.claimed}
        os.makedirs(data_dir, mode=0o700, exist_ok=True)
        replace_file(os.path.join(data_dir, CONFIRMED), json.dumps(names, indent=2).encode(), mode=0o600)
    return found.claimed


def _read_confirmed(data_dir: str) -> dict[str, str]:
    try:
        # A damaged file confirms nothing, so the safe name is used.
        found = json.loads(_read(os.path.join(data_dir, CONFIRMED)) or "{}")
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, dict):
        return found
    return {}


def clean_name(name: str) -> str:
    """A name in one line without blanks at its ends, cut where it is too long."""
    found = _UNWANTED.sub(" ", name).strip()
    if len(found) <= MOST_CHARS:
        return found
    # The hash keeps two long names apart that begin alike.
    return f"{found[: MOST_CHARS - 9]}-{_hash(found)}"


def find_project(folder: str, data_dir: str, environ: Mapping[str, str] = os.environ) -> FoundProject:
    """The project that a folder belongs to: without a name for a path that is a file or does not exist. ``data_dir``:
    where confirmed names are stored. Raises nothing."""
    try:
        # Links are resolved, so that every way to a folder gives the same project.
        here = os.path.realpath(folder)
        if not (folder and os.path.isdir(here)):
            return FoundProject()
        above = _folders_above(environ)
        # A memory of the whole home folder would mix all projects.
        if _same(here, above):
            return FoundProject()
        top, git = _find_repository(here, above)
        if git:
            return _name_repository(git, data_dir, _MOST_CLONES)
        if _is_of_programs(here, environ):
            return FoundProject()
        return FoundProject(clean_name(_name_folder(top or here)))
    except (OSError, ValueError):
        return FoundProject()


def find_repository(folder: str, environ: Mapping[str, str] = os.environ) -> str:
    """The folder of the repository that a folder is in; of a worktree that of the repository itself. "" without one, or if
    git would not trust it. Raises nothing."""
    try:
        _, git = _find_repository(os.path.realpath(folder), _folders_above(environ))
        return _top_of(_find_shared(git)) if git else ""
    except (OSError, ValueError):
        return ""


def name_remote(url: str) -> str:
    """The common part of all forms of a remote's URL: ``github.com/owner/name``; "" for a path on this machine. User,
    password, port, query and ``.git`` are left out."""
    url = url.strip()
    schemed = _SCHEME.fullmatch(url)
    if schemed:
        if schemed[1].lower() == "file":
            return ""
        place, _, path = re.split(r"[?#]", schemed[2], maxsplit=1)[0].partition("/")
    else:
        place, colon, path = url.partition(":")
        # A single letter before a colon is a drive of Windows, not a host.
        if not colon or "/" in place or "\\" in place or _DRIVE.match(url):
            return ""
    # User and port differ between clones of one repository.
    host = re.sub(r":\d*$", "", place.rpartition("@")[2]).lower().rstrip(".")
    host = _OTHER_NAMES.get(host, host)
    if host:
        return "/".join([host, *_name_parts(host, path)])
    return ""


def _name_parts(host: str, path: str) -> list[str]:
    if "%" in path:
        decoded = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), path)
    else:
        decoded = path
    parts = [part for part in decoded.split("/") if part not in ("", ".")]
    if host == "dev.azure.com":  # ssh: v3/owner/project/name, https: owner/project/_git/name
        parts = [part for part in parts if part not in ("v3", "_git")]
    if parts and parts[-1].lower().endswith(".git"):
        parts[-1] = parts[-1][:-4]
    return [part.lower() if host in _CASELESS else part for part in parts if part]


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _name_folder(folder: str) -> str:
    """A folder's own name, and a hash of its path."""
    return f"{os.path.basename(folder) or 'folder'}-{_hash(os.path.normcase(folder))}"


def _same(folder: str, others: Sequence[str]) -> bool:
    return os.path.normcase(folder) in others


def _folders_above(environ: Mapping[str, str]) -> list[str]:
    """The folders that hold a person's files, and no project: the home folder and all above it."""
    home = os.path.realpath(
        environ.get("USERPROFILE" if sys.platform == "win32" else "HOME") or os.path.expanduser("~")
    )
    found = [home]
    while os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return [os.path.normcase(each) for each in found]


def _is_of_programs(folder: str, environ: Mapping[str, str]) -> bool:
    """Whether a folder without git is the system's or a program's: there a host was launched that opens none."""
    if os.path.dirname(folder) == folder:
        return True
    if sys.platform == "win32":
        named = (
            environ.get(name) for name in ("SystemRoot", "ProgramFiles", "ProgramFiles(x86)", "LOCALAPPDATA", "APPDATA")
        )
        tops = [each for each in named if each]
    else:
        tops = ["/usr", "/bin", "/opt", "/Applications", "/System", "/Library", "/snap", "/proc"]
    path = os.path.normcase(folder)
    return any((path + os.sep).startswith(os.path.normcase(os.path.realpath(top)) + os.sep) for top in tops)


def _find_repository(folder: str, above: Sequence[str]) -> tuple[str, str]:
    """The nearest folder up from here that git knows, and where its git files are: "" if they are not there or cannot be
    read. Two "" where no such folder exists."""
    while not _same(folder, above):
        # A folder that only looks like a repository (a bare one) may have come with the files of another.
        if os.path.basename(folder) == ".git":
            own = [folder]
        else:
            own = []
        for place in (os.path.join(folder, ".git"), *own):
            git = _find_git(place, folder)
            if git is not None:
                # Found, but not trusted: a repository of another user could claim any name.
                return folder, git if git and _is_own(folder) and _is_own(git) else ""
        folder, last = os.path.dirname(folder), folder
        if folder == last:
            break
    return "", ""


def _find_git(place: str, folder: str) -> str | None:
    """The git folder that ``place`` is, or names if it is a file: "" if that cannot be read. None if it is neither."""
    git = place
    if os.path.basename(place) == ".git" and os.path.isfile(place):
        text = _read(place)
        named = text[len("gitdir:") :].strip().replace("\0", "?")
        git = os.path.realpath(os.path.join(folder, named))
        is_git = text.startswith("gitdir:") and os.path.isfile(os.path.join(git, "HEAD"))
        # The file is only believed if git's own files name this folder.
        if is_git and _leads_back(git, folder):
            return git
        return ""
    if not os.path.isdir(git):
        return None
    # A bare repository that cannot be read may be a folder that only looks like one.
    if not os.access(git, os.R_OK | os.X_OK):
        if place != folder:
            return ""
        return None
    if os.path.isfile(os.path.join(git, "HEAD")) and _has_objects(git):
        return git
    return None


def _leads_back(git: str, folder: str) -> bool:
    """Whether git's own files name the folder as one of theirs: a worktree or a submodule. A file in a folder may name any
    repository."""
    named = _read(os.path.join(git, "gitdir")).strip()
    if named:
        return os.path.realpath(os.path.join(git, named)) == os.path.join(os.path.realpath(folder), ".git")
    worktree = _read_key(os.path.join(git, "config"), "core", "worktree")
    return bool(worktree) and os.path.realpath(os.path.join(git, worktree)) == os.path.realpath(folder)


def _is_own(path: str) -> bool:
    """Whether a folder is this user's, as git asks before it trusts one."""
    if not hasattr(os, "geteuid"):
        return True
    user = os.geteuid()
    owner = os.stat(path).st_uid
    return owner == user or (user == 0 and str(owner) == os.environ.get("SUDO_UID"))


def _has_objects(git: str) -> bool:
    return os.path.isdir(os.path.join(git, "objects")) or os.path.isfile(os.path.join(git, "commondir"))


def _name_repository(git: str, data_dir: str, clones: int) -> FoundProject:
    """The project of the repository with this git folder. ``clones``: the most folders to follow from a clone to its
    source."""
    git = _find_shared(git)
    own, remote = _read_config(os.path.join(git, "config"))
    own = clean_name(own)
    # Only the exact name that the user has confirmed counts; a pull may change the configuration.
    if own and _read_confirmed(data_dir).get(git) == own:
        return FoundProject(own)
    found = _name_by_remote(git, remote, data_dir, clones)
    if own and own != found.name:
        return FoundProject(found.name, own, git)
    return found


def _find_shared(git: str) -> str:
    """The git folder that a worktree shares with others; of another repository its own."""
    shared = _read(os.path.join(git, "commondir")).strip()
    found = os.path.realpath(os.path.join(git, shared))
    own = os.path.realpath(git)
    # A folder that names any other as the one that it shares may have come with the files of a stranger.
    if os.path.dirname(own) == os.path.join(found, "worktrees") and _is_own(found):
        return found
    return own


def _name_by_remote(git: str, remote: str, data_dir: str, clones: int) -> FoundProject:
    """The project of a repository that has no name of its own."""
    if remote:
        named = name_remote(remote)
    else:
        named = ""
    if named:
        return FoundProject(clean_name(named))
    if remote:
        origin = _find_clone(remote, _top_of(git))
    else:
        origin = ""
    # A clone of a local clone belongs to the project of its source.
    if origin and clones:
        # The user cloned from this folder, so it counts wherever it lies.
        _, there = _find_repository(origin, ())
        if there:
            return _name_repository(there, data_dir, clones - 1)
    return FoundProject(clean_name(_name_folder(_top_of(git))))


def _top_of(git: str) -> str:
    """The folder by which people know a repository."""
    if os.path.basename(git) == ".git":
        return os.path.dirname(git)
    return git


def _find_clone(remote: str, top: str) -> str:
    """The folder on this machine that a repository was cloned from; "" if it is not there."""
    schemed = _SCHEME.fullmatch(remote)
    if schemed:
        path = schemed[2]
    else:
        path = remote
    if sys.platform == "win32" and _DRIVE.match(path):
        path = path.lstrip("/")
    # Git finds a bare clone with or without the ending.
    found = os.path.realpath(os.path.join(top, path))
    if not os.path.isdir(found):
        found = f"{found}.git"
    if os.path.isdir(found) and found != os.path.realpath(top):
        return found
    return ""


def _read_config(path: str) -> tuple[str, str]:
    """The project that a repository's configuration names (``layerlore.project``), and the URL of its remote: origin,
    else the first; "" for what there is not."""
    own = ""
    remotes: dict[str, str] = {}
    for (section, name), key, value in _list_settings(path):
        if (section, name, key) == ("layerlore", "", "project"):
            own = value
        if section == "remote" and key == "url" and value:
            remotes.setdefault(name, value)
    # Git's own default is origin, and a fork often has more remotes.
    return own, remotes.get("origin") or next(iter(remotes.values()), "")


def _read_key(path: str, section: str, key: str) -> str:
    """The last value of a key in a configuration of git's; "" if none exists."""
    found = [value for named, each, value in _list_settings(path) if named == (section, "") and each == key]
    if found:
        return found[-1]
    return ""


def _list_settings(path: str) -> Iterator[tuple[tuple[str, str], str, str]]:
    """The settings of a configuration of git's: the section and its name, the key in small letters, and the value."""
    section = ("", "")
    # A backslash at the end of a line joins it with the next one.
    for line in _read(path).replace("\\\n", "").splitlines():
        rest = line.strip()
        found = _SECTION.match(rest)
        if found:
            section = found[1].lower(), re.sub(r"\\(.)", r"\1", found[2] or "")
            rest = rest[found.end() :].strip()
        named = _NAMED.match(rest)
        if named:
            yield section, named[1].lower(), _read_value(named[2])


def _read_value(text: str) -> str:
    """A value as git reads it: quotes and comments taken away."""
    found, quoted, rest = "", False, iter(text)
    for char in rest:
        if char == "\\":
            found += next(rest, "")
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            found += char
    return found.strip()


def _read(path: str) -> str:
    """A small file's text; "" if it is not there or cannot be read."""
    try:
        return read_regular(path, _MOST_BYTES).decode("utf-8-sig", "replace")
    except (OSError, ValueError):
        return ""

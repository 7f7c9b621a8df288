"""A launch: its settings for the server's process, which launches with equal ones share, and the settings of its own
connection.

The process has the database, the models and every rule. A digest of all of these names its socket, so that other settings
mean another server. Each connection brings its user and its choice of tools.
"""

import importlib
import json
import os
import sys
from collections.abc import Collection, Mapping

from layerlore.server.settings.launch import ALONE
from layerlore.server.settings.project import AUTO, NONE, choose_project

try:  # hashlib loads OpenSSL, which is a fifth of a thin client's memory
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

_PREFIX = "LAYERLORE_"
_TESTS = "LAYERLORE_TEST_"
_OWN = ("agent", "resource", "project", "thread", "toolsets")
"""Settings that each connection brings along."""
OWN_VARIABLES = frozenset(_PREFIX + name.upper() for name in _OWN)
# The libraries of models and databases read these variables themselves.
_OF_DATABASES = ("PG",)
_OF_MODELS = ("AWS_", "AZURE_", "GOOGLE_", "VERTEX", "OPENAI_", "ANTHROPIC_", "LITELLM_", "OLLAMA_", "SSL_CERT_")
# _TOKEN alone is not among them, since hosts give each session a new token of their own.
_OF_MODELS_ENDS = ("_API_KEY", "_API_BASE", "_API_TOKEN", "_BASE_URL", "_PROXY", "_SECRET", "_CREDENTIALS", "HF_TOKEN")
_MODEL_SETTINGS = ("LAYERLORE_LLM", "LAYERLORE_EMBEDDING")
# A Unix socket's address holds little more than a hundred bytes on every system.
_LONGEST_ADDRESS = 96


class Launch:
    """A launch that may share a server.

    ``flags`` belong to the process, ``own_flags`` and ``own_variables`` to the connection. ``base``: the path of the files
    beside the socket, without their endings. ``hooks``: the folder for the events of hooks for its database.
    ``directory``: where the process runs.
    """

    __slots__ = ("base", "directory", "flags", "hooks", "own_flags", "own_variables")

    def __init__(
        self, base: str, hooks: str, directory: str, flags: dict[str, str], own: tuple[dict[str, str], dict[str, str]]
    ) -> None:
        self.base = base
        self.hooks = hooks
        self.directory = directory
        self.flags = flags
        self.own_flags, self.own_variables = own

    def own_setting(self, name: str) -> str:
        """A setting of this connection alone; "" if it is not set."""
        return self.own_flags.get(name) or self.own_variables.get(_PREFIX + name.upper()) or ""


def read_launch(flags: Mapping[str, str], environ: Mapping[str, str], working_in: str = os.curdir) -> Launch | None:
    """The launch of these flags and variables; None if it cannot share a process: the flags say so, it stores nothing that
    others could share, or its settings cannot be read, which its own process reports.

    ``working_in``: the folder whose project ``--project auto`` means; the server runs in another one."""
    try:
        given = _LaunchOptions(flags, environ)
    except (OSError, ValueError):
        return None
    if ALONE in flags or given.shares_nothing:
        return None
    folder = os.path.abspath(os.path.expanduser(given.setting("data_dir") or data_folder(environ)))
    process, own = _part(given.flags, _OWN)
    variables, own_variables = _part(given.variables, OWN_VARIABLES)
    if given.setting("project").lower() == AUTO:
        # NONE and not "", so that the server does not look for a project of its own folder.
        own["project"] = choose_project(AUTO, working_in, folder) or NONE
    digest = _digest(folder, process, given.text, variables)
    # A relative path means another file in each folder, so the folder becomes part of the socket's name.
    directory, name = os.sep, digest
    if any(map(_is_relative, (given.config, given.setting("data_dir"), given.setting("database")))):
        directory = os.getcwd()
    if directory != os.sep:
        name = _hash([digest, directory])
    hooks = hook_folder(folder, given.setting("database"))
    return Launch(_choose_base(folder, name), hooks, directory, process, (own, own_variables))


def hook_folder(folder: str, database: str) -> str:
    """The folder for the events of hooks and the state of their sessions: one for each database of a data folder, whatever
    the other settings are. ``database``: its URL, "" for the file in the data folder."""
    return os.path.join(folder, "hooks", _hash(database) if database else "memory")


class _LaunchOptions:
    """The flags of a launch, its variables with their names in capitals, and the ``text`` of its settings file. Raises
    OSError or ValueError for a file that cannot be read."""

    __slots__ = ("_file", "config", "flags", "text", "variables")

    def __init__(self, flags: Mapping[str, str], environ: Mapping[str, str]) -> None:
        # Names of variables ignore case on Windows.
        self.variables = {name.upper(): value for name, value in environ.items() if _counts(value)}
        self.flags = {name: value for name, value in flags.items() if _counts(value)}
        self.config = self.flags.get("config") or self.variables.get("LAYERLORE_CONFIG", "")
        self.text = _read(self.config)
        self._file = importlib.import_module("tomllib").loads(self.text) if self.text else {}

    def setting(self, name: str) -> str:
        """The top-level setting of that name; "" if it is not set."""
        found = self.flags.get(name) or self.variables.get(_PREFIX + name.upper()) or self._file.get(name) or ""
        return str(found)

    @property
    def shares_nothing(self) -> bool:
        """Whether the stored memory cannot or must not be shared."""
        local = self._file.get("local")
        in_file = local.get("share", True) if isinstance(local, dict) else True
        share = self.variables.get("LAYERLORE_LOCAL__SHARE") or in_file
        if str(share).lower() in ("false", "0", "no", "off", "f", "n"):
            return True
        return ":memory:" in self.setting("database") or self.setting("memory").lower() in ("off", "false")


def _part(given: Mapping[str, str], own: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of the process, and the connection's ``own``."""
    process = {name: value for name, value in given.items() if name not in own}
    return process, {name: value for name, value in given.items() if name in own}


def data_folder(environ: Mapping[str, str]) -> str:
    """The platform's data folder, the default."""
    if sys.platform == "win32":
        return os.path.join(environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local"), "layerlore")
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/layerlore")
    return os.path.join(environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "layerlore")


def _counts(value: str) -> bool:
    """Whether a flag or variable counts as set: not if it is empty, or a placeholder that the host did not expand."""
    return bool(value) and not value.startswith("${")


def _read(config: str) -> str:
    if not config:
        return ""
    with open(os.path.expanduser(config), encoding="utf-8") as file:
        return file.read()


def _is_relative(path: str) -> bool:
    """Whether a path or the database of a URL depends on the current directory."""
    if path.startswith("sqlite:"):
        return not path.startswith("sqlite:///")
    return bool(path) and "://" not in path and not os.path.isabs(os.path.expanduser(path))


def _digest(folder: str, process: Mapping[str, str], config: str, variables: Mapping[str, str]) -> str:
    # Keys of models matter only where models are used; otherwise any new variable would mean a new server.
    asks_models = bool(config) or any(name.startswith(_MODEL_SETTINGS) for name in variables)

    def matters(name: str) -> bool:
        if name.startswith(_PREFIX):
            return not name.startswith(_TESTS) and name != "LAYERLORE_DATA_DIR"
        if name.startswith(_OF_DATABASES):
            return True
        return asks_models and (name.startswith(_OF_MODELS) or name.endswith(_OF_MODELS_ENDS))

    settings = {name: value for name, value in process.items() if name != "data_dir"}
    return _hash([folder, settings, config, {name: variables[name] for name in variables if matters(name)}])


def _hash(value: object) -> str:
    return blake2b(json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def socket_folders(folder: str) -> list[str]:
    """The folders for the sockets of a data folder, best first: beside the database or, if that path is too long for a
    socket's address, in a folder for temporary files. The environment's own may be too long, too."""
    beside = os.path.join(folder, "local")
    if sys.platform == "win32":
        return [beside]
    temporary = dict.fromkeys((os.environ.get("TMPDIR") or "/tmp", "/tmp"))  # noqa: S108 - for its owner only
    return [beside, *(os.path.join(each, f"layerlore-{os.getuid()}") for each in temporary)]


def _choose_base(folder: str, name: str) -> str:
    bases = [os.path.join(each, name) for each in socket_folders(folder)]
    # The address of a Unix socket is limited to about a hundred bytes.
    return next((base for base in bases if len(os.fsencode(base)) <= _LONGEST_ADDRESS), bases[-1])

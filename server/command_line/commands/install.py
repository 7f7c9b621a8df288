"""``layerlore install`` and ``layerlore uninstall``. Also finds out whether a server over HTTP needs a key, and stores the one
that the user types in."""

import getpass
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx2
import typer

from layerlore.server.access.caller import CAPTURED_HEADER, PROJECT_HEADER
from layerlore.server.access.exposure import is_loopback
from layerlore.server.access.issuer_keys import load_trusted
from layerlore.server.access.remote_endpoint import check_key, parse_endpoint
from layerlore.server.capture.memory_files import list_section_files, remove_section
from layerlore.server.capture.memory_notes import SectionDamaged
from layerlore.server.command_line.options import fail, read_settings
from layerlore.server.command_line.owner import show_project
from layerlore.server.command_line.suggestions import suggest
from layerlore.server.command_line.tables import print_table
from layerlore.server.hosts.catalog import BY_NAME, HOSTS, NAME, Format, Host, HostLaunch, Places, launches_us
from layerlore.server.hosts.hook_files import TRUST, HookFile, find_hooks, find_switched_off, is_untrusted
from layerlore.server.hosts.host_changes import HostOutcome, add_to_host, remove_from_host
from layerlore.server.hosts.host_file import HostChange, HostFile, HostFileRefused, make_link
from layerlore.server.hosts.installation import find_command, is_temporary, read_records, stage_runtime
from layerlore.server.process.safe_files import replace_file
from layerlore.server.relay.conversation import store_first_answers
from layerlore.server.relay.hook_events import MEMORY_FILES_FLAG, REMOTE_FLAGS, forget_captured, note_captured
from layerlore.server.relay.launch import hook_folder, read_launch
from layerlore.server.settings.launch import FLAGS, launch_flags
from layerlore.server.settings.local_key import key_file
from layerlore.server.settings.project import AUTO, confirm_project, find_project
from layerlore.server.settings.settings import Settings, SettingsError

WAIT_SECONDS = 5.0
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_UNAUTHORIZED = 401


def find_key_file(settings: Settings, url: str, *, by_hooks: bool = False) -> str:
    """The file with the key for a server; "" if the server needs none, has a sign-in, or cannot be reached now.
    ``by_hooks``: hooks use the key, and they cannot sign in.

    It asks a person at a terminal for a missing key. Raises SettingsError if the server needs a key and accepts none.
    """
    endpoint = parse_endpoint(url)
    try:
        return _find(settings, endpoint, by_hooks=by_hooks)
    except httpx2.HTTPError as error:
        sys.stdout.write(
            f"{endpoint} cannot be reached now ({type(error).__name__}): if it needs a key, give --key-file FILE\n"
        )
        return ""


def _find(settings: Settings, endpoint: httpx2.URL, *, by_hooks: bool) -> str:
    if not _needs_key(settings, endpoint, "", by_hooks=by_hooks):
        return ""
    kept = _name_file(settings, endpoint)
    if kept.exists() and not _needs_key(settings, endpoint, kept.read_text(encoding="ascii", errors="ignore").strip()):
        return str(kept)
    if not sys.stdin.isatty():
        raise SettingsError(f"{endpoint} needs a key: give --key-file FILE{_name_local_key(settings, endpoint)}")
    try:
        key = check_key(getpass.getpass(f"Key for {endpoint}: "))
    except EOFError:
        raise SettingsError(f"{endpoint} needs a key, and none was given") from None
    if _needs_key(settings, endpoint, key):
        raise SettingsError(f"{endpoint} does not accept this key")
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(str(kept), f"{key}\n".encode("ascii"), mode=0o600)
    sys.stdout.write(f"The key is kept in {kept}, which only you can read.\n")
    return str(kept)


def _needs_key(settings: Settings, endpoint: httpx2.URL, key: str, *, by_hooks: bool = False) -> bool:
    """Whether the server refuses a request with this key. A server with a sign-in needs no key, except for hooks."""
    headers = {"Accept": "application/json, text/event-stream"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    trusted = load_trusted(settings.bridge.ca_file, "bridge.ca_file")
    with httpx2.Client(verify=trusted, follow_redirects=False, timeout=WAIT_SECONDS) as client:
        answer = client.post(endpoint, json=_PING, headers=headers)
    has_sign_in = "resource_metadata=" in answer.headers.get("www-authenticate", "")
    return answer.status_code == _UNAUTHORIZED and (bool(key) or by_hooks or not has_sign_in)


def _name_file(settings: Settings, endpoint: httpx2.URL) -> Path:
    """The file of a server's key. Each server has its own, so that a key only goes to the server that it was typed for."""
    place = f"{endpoint.netloc.decode('ascii')}{endpoint.path.rstrip('/')}"
    return settings.data_dir / f"key-{quote(place, safe='')}"


def _name_local_key(settings: Settings, endpoint: httpx2.URL) -> str:
    if is_loopback(endpoint.host) and key_file(settings.data_dir).exists():
        return f"; that of `{suggest('serve')}` on this machine is in {key_file(settings.data_dir)}"
    return ""


ALL = "all"
_MEMORY_HOSTS = ("claude-code", "codex")


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """Which hosts, and what they launch. ``options``: launch options by setting, as the user gave them; ``url`` and
    ``key_file`` of a server over HTTP; ``project``: the files of the current folder instead of the person's; ``capture``: their hooks, too; ``projects``: a memory for each project, where
    the host is opened in a folder; ``memory_files``: the hooks keep the host's own memory files in step."""

    hosts: tuple[str, ...]
    options: dict[str, str]
    url: str = ""
    key_file: str = ""
    project: bool = False
    capture: bool = False
    projects: bool = False
    memory_files: bool = False


def run_install(settings: Settings, request: InstallRequest) -> int:
    """Add this server to the configuration of the hosts. Returns the exit code: 1 if a file had to stay as it is.

    Raises SettingsError for a host, URL or combination that is not allowed.
    """
    places = Places()
    if not request.hosts:
        return _list(places)
    chosen = _choose(request, places)
    if not chosen:
        sys.stdout.write(
            "none of the hosts that this knows is installed here: name one to write its file all the same\n"
        )
        return 1
    if request.url and not request.key_file:
        request = replace(request, key_file=find_key_file(settings, request.url, by_hooks=request.capture))
    # All plans come before the first write, so that an error for one host leaves all files unchanged.
    planned = [(host, file, changes) for host in chosen for file, changes in _plan(settings, request, host, places)]
    # In a project's own folder the person agrees to its name by installing.
    if request.project and (name := confirm_project(os.curdir, str(settings.data_dir))):
        sys.stdout.write(f"This repository names its project {name!r}: that name counts from now on.\n")
    # Done before the copy, so that the copy includes the compiled code.
    _prepare_server(request, chosen)
    # If the environment is in a cache that a package runner may empty, hosts launch this copy.
    stage_runtime(settings.data_dir)
    told = [add_to_host(settings.data_dir, host.name, file, changes) for host, file, changes in planned]
    _report(told)
    for host, file, _ in planned:
        _report_other_names(host, file)
    if is_temporary():
        sys.stdout.write(
            f"This program lies in a folder for temporary files ({sys.prefix}): hosts cannot start it when that is "
            "emptied. Install it elsewhere, and run this again from there.\n"
        )
    _note_hooks(settings, request, chosen, places, told)
    if any(each.outcome in ("added", "updated") for each in told):
        sys.stdout.write("Restart a host that is open, so that it reads its file again.\n")
    if request.memory_files:
        named = ", ".join(host.title for host in chosen if host.name in _MEMORY_HOSTS)
        sys.stdout.write(
            f"From the next session on, the memory files of these are kept in step: {named}.\n"
            if named
            else "None of these keeps memory files that this knows.\n"
        )
    elif request.capture and not request.project:
        # The hooks no longer update the sections, which would become stale.
        _report(_remove_sections(chosen, places))
    if request.capture:
        without = [host.title for host in chosen if not find_hooks(host.name, ())]
        sys.stdout.write(
            f"These have no hooks, so their models must call the tools: {', '.join(without)}.\n" if without else ""
        )
        for host in chosen:
            _report_obstacles(host, places, _top(request))
    return _code(told)


def _prepare_server(request: InstallRequest, hosts: Sequence[Host]) -> None:
    """Start the server that the hosts will share, and store its first answers: some hosts wait for a second only, and the
    first start of all takes longer."""
    if request.url:
        return
    for options in dict.fromkeys(_options(request, host) for host in hosts):
        launch = read_launch(launch_flags(list(options)) or {}, os.environ)
        try:
            if launch is not None:
                store_first_answers(launch)
        except (OSError, ValueError) as error:
            sys.stdout.write(f"The server does not start ({error}): `{suggest('doctor')}` says more.\n")


def show_plan(settings: Settings, request: InstallRequest) -> int:
    """Print what ``install`` would write, and the link that does it where a host has one; write nothing."""
    places = Places()
    for host in _choose(request, places) if request.hosts else HOSTS:
        for file, changes in _plan(settings, request, host, places):
            sys.stdout.write(f"{host.title}: {file.path}\n\n")
            text: str | None = None
            for change in changes:
                text = file.with_value(text, change.keys, change.value)
            sys.stdout.write("".join(f"    {line}\n" for line in (text or "").splitlines()) + "\n")
        if link := make_link(host, _launch(settings, request, host)):
            sys.stdout.write(f"  or open: {link}\n\n")
    return 0


def run_uninstall(settings: Settings, request: InstallRequest) -> int:
    """Remove from the hosts' files what ``install`` wrote. Returns the exit code."""
    places = Places()
    hosts = _choose(replace(request, hosts=request.hosts or (ALL,)), places, installed=False)
    records = read_records(settings.data_dir)
    written = list(records)
    ours = [(host, file, keys) for host in hosts for file, keys in _find_ours(host, request, places)]
    if not request.project:
        # Files of projects, and of places that a variable named at the time.
        known = {str(file.path) for _, file, _ in ours}
        ours += [
            (host, _file_of_record(host, path), [tuple(keys) for keys in record.keys])
            for path, record in records.items()
            for host in hosts
            if record.host == host.name and path not in known
        ]
    # The last file comes first, since it may lie in the folder of an earlier one.
    ours.sort(key=lambda each: written.index(str(each[1].path)) if str(each[1].path) in written else -1, reverse=True)
    told = [remove_from_host(settings.data_dir, host.name, file, keys) for host, file, keys in ours]
    hooks = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
    for each in told:
        if each.outcome == "removed":
            forget_captured(hooks, each.host)
    if not request.project:
        told += _remove_sections(hosts, places)
    _report([each for each in told if each.outcome != "not there"])
    if all(each.outcome == "not there" for each in told):
        sys.stdout.write("no host's file names this server\n")
    return _code(told)


def _remove_sections(hosts: Sequence[Host], places: Places) -> list[HostOutcome]:
    """Remove our sections from the hosts' memory files."""
    found: list[HostOutcome] = []
    for host in hosts:
        home = _find_memory_home(host, places)
        for path, top in list_section_files(host.name, home) if home else ():
            try:
                if remove_section(path, top):
                    found.append(HostOutcome(host.name, path, "removed"))
            except SectionDamaged as error:
                found.append(HostOutcome(host.name, path, "refused", f"{path} stays as it is: {error}"))
            except OSError as error:
                found.append(HostOutcome(host.name, path, "refused", f"{path} stays as it is: {error.strerror}"))
    return found


def _find_memory_home(host: Host, places: Places) -> Path | None:
    if host.name == "claude-code":
        moved = places.variables.get("CLAUDE_CONFIG_DIR")
        return Path(moved) if moved else places.find("HOME/.claude")
    return places.find("CODEX/") if host.name == "codex" else None


def _choose(request: InstallRequest, places: Places, *, installed: bool = True) -> list[Host]:
    unknown = [name for name in request.hosts if name not in BY_NAME and name != ALL]
    if unknown:
        raise SettingsError(f"no host is named {unknown[0]!r}; there are: {', '.join([*BY_NAME, ALL])}")
    if ALL not in request.hosts:
        return [host for host in HOSTS if host.name in request.hosts]
    # Uninstalling also looks at hosts that are gone, since their files may still be there.
    hosts = [host for host in HOSTS if not installed or host.is_installed(places)]
    if request.project:
        return [host for host in hosts if host.project]
    return hosts


def _plan(
    settings: Settings, request: InstallRequest, host: Host, places: Places
) -> list[tuple[HostFile, list[HostChange]]]:
    """The new content of each of a host's files."""
    entry = host.write(_launch(settings, request, host))
    if headers := {**_project_headers(settings, request), **_capture_headers(request, host)}:
        entry = {**entry, host.headers: headers}
    server = HostChange((*host.keys, NAME), entry)
    files = [(_file(host, request, places), [server])]
    if request.capture:
        program = find_command(settings.data_dir)
        options = _options(request, host)
        if request.memory_files and host.name in _MEMORY_HOSTS:
            options = (*options, MEMORY_FILES_FLAG)
        if request.url:
            options = (*options, *_remote_options(request))
        for written, changes in find_hooks(host.name, program, options):
            path = _path_of(written, request, places)
            # Some hosts keep hooks and servers in one file, which must be written once with both.
            same = next((kept for file, kept in files if file.path == path), None)
            if same is not None:
                same.extend(changes)
            elif path is not None:
                files.append((HostFile(path, written.format, _top(request)), changes))
    return files


def _find_ours(host: Host, request: InstallRequest, places: Places) -> list[tuple[HostFile, list[tuple[str, ...]]]]:
    """A host's files that may have our entries, and the keys of these entries."""
    files = [(_file(host, request, places), [(*host.keys, NAME)])]
    for written, changes in find_hooks(host.name, ()):
        path = _path_of(written, request, places)
        if path is not None and path != files[0][0].path:
            files.append((HostFile(path, written.format, _top(request)), [change.keys for change in changes]))
    return files


def _file_of_record(host: Host, path: str) -> HostFile:
    """A file that ``install`` wrote elsewhere, with the top of its project if it is a project's file."""
    places: list[tuple[str, Format]] = [(host.project, host.format)]
    places += [(written.project, written.format) for written, _ in find_hooks(host.name, ())]
    for inside, format_ in places:
        if inside and Path(path).parts[-len(Path(inside).parts) :] == Path(inside).parts:
            return HostFile(Path(path), format_, Path(path).parents[len(Path(inside).parts) - 1])
    return HostFile(Path(path), _FORMAT_OF.get(Path(path).suffix, "json"))


def _path_of(written: HookFile, request: InstallRequest, places: Places) -> Path | None:
    if not request.project:
        return places.find(written.file)
    if written.project:
        return Path.cwd() / written.project
    # A host without a project file for hooks gets none, rather than a personal one.
    return None


def _file(host: Host, request: InstallRequest, places: Places) -> HostFile:
    if not request.project:
        return HostFile(host.find_file(places), host.format)
    if not host.project:
        of_projects = ", ".join(each.name for each in HOSTS if each.project)
        raise SettingsError(f"{host.title} has no file for one project; these have: {of_projects}")
    return HostFile(Path.cwd() / host.project, host.format, _top(request))


def _remote_options(request: InstallRequest) -> tuple[str, ...]:
    """The options of a hook that stores on a server over HTTP."""
    given = {"url": str(parse_endpoint(request.url)), "key_file": _key_path(request)}
    return tuple(part for flag, name in REMOTE_FLAGS.items() if given[name] for part in (flag, given[name]))


def _key_path(request: InstallRequest) -> str:
    """The file with the key, for programs that start in another folder; "" without one."""
    return str(Path(request.key_file).expanduser().absolute()) if request.key_file else ""


def _top(request: InstallRequest) -> Path | None:
    if request.project:
        return Path.cwd()
    return None


def _launch(settings: Settings, request: InstallRequest, host: Host) -> HostLaunch:
    """The program that a host launches: with a key, or where it can be given no URL, the bridge, so that no key stands
    in its file."""
    program = find_command(settings.data_dir)
    options = _options(request, host)
    if not request.url:
        return HostLaunch((*program, *options))
    endpoint = str(parse_endpoint(request.url))
    if request.key_file:
        return HostLaunch((*program, "bridge", endpoint, "--key-file", _key_path(request), *options))
    if not host.url:
        raise SettingsError(
            f"{host.title} launches commands only: give --key-file FILE, which `layerlore bridge` reads"
        )
    if request.options:
        raise SettingsError("a URL takes no launch options: the key decides, or give --key-file FILE")
    return HostLaunch((), endpoint)


def _project_headers(settings: Settings, request: InstallRequest) -> dict[str, str]:
    """The header that names this folder's project to a server over HTTP, which sees no folders; a bridge sends its own."""
    if not (request.url and request.projects) or request.key_file:
        return {}
    if not request.project:
        raise SettingsError(
            "--projects with a URL needs --project, for the file of this folder alone, or --key-file FILE: a URL in your "
            "own file is the same in all folders"
        )
    found = find_project(os.curdir, str(settings.data_dir))
    # A name that the repository gives itself counts from this install on.
    name = found.claimed or found.name
    if not name:
        raise SettingsError("--projects: this folder belongs to no project")
    if not name.isascii():
        raise SettingsError(f"--projects: hosts cannot send the name {name!r} in a header; give --key-file FILE")
    return {PROJECT_HEADER: name}


def _capture_headers(request: InstallRequest, host: Host) -> dict[str, str]:
    """The header that announces this host's hooks to a server over HTTP; a bridge sends its own."""
    if request.url and request.capture and not request.key_file and find_hooks(host.name, ()):
        return {CAPTURED_HEADER: "1"}
    return {}


def _options(request: InstallRequest, host: Host) -> tuple[str, ...]:
    flags = {setting: flag for flag, setting in FLAGS.items()}
    given = dict(request.options)
    if request.projects and host.opens_folders:
        # A host that opens no folder would bind one project for all its work.
        given["project"] = AUTO
    return tuple(part for name, value in given.items() for part in (flags[name], _absolute(name, value)))


def _absolute(name: str, value: str) -> str:
    # The host starts in another folder, where a relative path would mean something else.
    if name in ("data_dir", "config"):
        return str(Path(value).expanduser().absolute())
    return value


def _list(places: Places) -> int:
    rows = []
    for host in HOSTS:
        file = HostFile(host.find_file(places), host.format)
        rows.append((host.name, host.title, _state(host, file, places), str(file.path)))
    print_table(("name", "host", "here", "file"), rows)
    sys.stdout.write(
        f"`{suggest('install', 'all')}` adds it to every host that is here; `{suggest('install', 'NAME')}` adds it to one.\n"
    )
    return 0


def _state(host: Host, file: HostFile, places: Places) -> str:
    try:
        told = file.find(file.read(), (*host.keys, NAME)) is not None
    except HostFileRefused:
        return "its file cannot be read"
    if told:
        return "knows this server"
    if host.is_installed(places):
        return "yes"
    return "no"


_FORMAT_OF: dict[str, Format] = {".toml": "toml", ".yaml": "yaml"}
# The file itself and its other content stay.
_OUTCOMES: dict[str, str] = {"added": "added to", "updated": "updated in", "removed": "removed from"}


def _report(told: Sequence[HostOutcome]) -> None:
    for each in told:
        outcome = _OUTCOMES.get(each.outcome, f"{each.outcome}:")
        line = f"{BY_NAME[each.host].title}: {outcome} {each.why or each.path}"
        sys.stdout.write(line + (f" (before: {each.backup})" if each.backup else "") + "\n")


def _note_hooks(
    settings: Settings, request: InstallRequest, hosts: Sequence[Host], places: Places, told: Sequence[HostOutcome]
) -> None:
    """Note the hosts whose hooks store conversations from now on, so that their models need not store them, too."""
    hooks = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
    refused = {each.host for each in told if each.why}
    for host in hosts if request.capture else ():
        stopped = is_untrusted(host.name, places, _top(request)) or any(
            find_switched_off(host.name, places, _top(request))
        )
        if find_hooks(host.name, ()) and host.name not in refused and not stopped:
            url = str(parse_endpoint(request.url)) if request.url else ""
            note_captured(hooks, host.name, url, _key_path(request))


def _report_obstacles(host: Host, places: Places, project: Path | None) -> None:
    """Print what keeps the hooks of a host from running."""
    for switched in find_switched_off(host.name, places, project):
        sys.stdout.write(f"{host.title}: no hook runs, and nothing is stored, because of {switched}.\n")
    if is_untrusted(host.name, places, project):
        sys.stdout.write(
            f"{host.title} runs no hook that you have not trusted: {TRUST}. Until then nothing is stored.\n"
        )


def _report_other_names(host: Host, file: HostFile) -> None:
    """Print a warning if a host's file names this server twice, since people also write the entry by hand."""
    try:
        servers = file.find(file.read(), host.keys)
    except HostFileRefused:
        return
    for name, entry in servers.items() if isinstance(servers, dict) else ():
        if name != NAME and NAME in servers and launches_us(entry):
            sys.stdout.write(
                f"{host.title}: {file.path} also names this server as {name!r}; "
                "remove that entry, or the host has each tool twice\n"
            )


def _code(told: Sequence[HostOutcome]) -> int:
    if any(each.outcome == "refused" for each in told):
        return 1
    return 0


Hosts = Annotated[
    list[str] | None,
    typer.Argument(metavar="[HOST ... | all]", help="Which hosts. Without one, list them.", show_default=False),
]
OfProject = Annotated[
    bool, typer.Option("--project", help="The file of the project in the current folder, not the person's.")
]


def install(
    flags: dict[str, Any],
    hosts: Hosts = None,
    http: Annotated[
        str, typer.Option(metavar="URL", help="Connect to this server over HTTP instead of launching one.")
    ] = "",
    key_file: Annotated[
        str, typer.Option(help="The file that holds the key for --http; without it you are asked.")
    ] = "",
    project: OfProject = False,
    capture: Annotated[
        bool, typer.Option("--capture", help="Hooks, too: the host shows what is remembered, and stores what is said.")
    ] = False,
    projects: Annotated[
        bool,
        typer.Option("--projects", help="A memory for each project, of the folder that the host is opened in."),
    ] = False,
    memory_files: Annotated[
        bool,
        typer.Option(
            "--memory-files",
            help="Hooks that also read the memory files of Claude Code and Codex, and keep a section in CLAUDE.md and AGENTS.md.",
        ),
    ] = False,
    print_: Annotated[bool, typer.Option("--print", help="Only print what would be written, and where.")] = False,
) -> int:
    """Add this server to the configuration of hosts, such as claude-code or cursor; `all` adds it to each host that is
    here.

    The launch options that are given (--agent, --resource, --data-dir ...) become those of the host's server."""
    if memory_files and project:
        return fail("install: --memory-files is about your own files: leave --project out", 2)
    if memory_files and http:
        return fail("install: --memory-files is about the memory of this machine: leave --http out", 2)
    if key_file and not http:
        return fail("install: --key-file goes with --http", 2)
    options = {name: value for name, value in flags.items() if isinstance(value, str)}
    settings = read_settings(flags)
    request = InstallRequest(
        tuple(hosts or ()), options, http, key_file, project, capture or memory_files, projects, memory_files
    )
    return show_plan(settings, request) if print_ else run_install(settings, request)


def uninstall(
    flags: dict[str, Any],
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST ... | all]", help="Which hosts. Without one, all.", show_default=False),
    ] = None,
    project: OfProject = False,
) -> int:
    """Remove from hosts' files exactly what `install` wrote; without a host, from all. The memory stays."""
    return run_uninstall(read_settings(flags), InstallRequest(tuple(hosts or ()), {}, project=project))


def project(
    flags: dict[str, Any],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Use the name that its repository's configuration gives it.")
    ] = False,
) -> int:
    """Show which project the current folder belongs to, as `--project auto` finds it."""
    return show_project(read_settings(flags), confirm=confirm)

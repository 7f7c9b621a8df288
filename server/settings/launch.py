"""The flags of a server's launch, read without a command-line library: hosts wait for the first answer."""

# Flag -> setting. ``config`` names a file and is not a setting.
FLAGS = {
    "--agent": "agent",
    "--resource": "resource",
    "--project": "project",
    "--thread": "thread",
    "--database": "database",
    "--data-dir": "data_dir",
    "--toolsets": "toolsets",
    "--memory": "memory",
    "--redaction": "redaction",
    "--log-level": "log_level",
    "--config": "config",
}


ALONE = "--alone"
"""The flag that takes no value: a process of its own, not the one that this person's hosts share."""


def launch_flags(arguments: list[str]) -> dict[str, str] | None:
    """``--name value`` and ``--name=value`` as settings, and ``--alone``, or None for anything else: a subcommand, --help, a
    mistake."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == ALONE:
            found[ALONE] = "true"
            continue
        name, equals, value = argument.partition("=")
        if name not in FLAGS:
            return None
        if not equals:
            following = next(rest, None)
            # A flag in place of the value is a mistake that the command line explains.
            if following is None or following.startswith("--"):
                return None
            value = following
        found[FLAGS[name]] = value
    return found

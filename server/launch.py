"""The flags of a server's launch, read without a command-line library: hosts wait for the first answer."""

# Flag -> setting. ``config`` names a file and is no setting.
FLAGS = {
    "--agent": "agent",
    "--resource": "resource",
    "--thread": "thread",
    "--database": "database",
    "--data-dir": "data_dir",
    "--toolsets": "toolsets",
    "--memory": "memory",
    "--redaction": "redaction",
    "--log-level": "log_level",
    "--config": "config",
}


def launch_flags(arguments: list[str]) -> dict[str, str] | None:
    """``--name value`` and ``--name=value`` as settings, or None for anything else: a subcommand, --help, a mistake."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in FLAGS:
            return None
        if not equals:
            following = next(rest, None)
            if following is None or following.startswith("--"):
                return None
            value = following
        found[FLAGS[name]] = value
    return found

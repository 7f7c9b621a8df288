"""The environment of a program that a test launches: none of the settings of whoever runs the tests, and no server that
outlives the test."""

import os


def own_environment(**variables: str) -> dict[str, str]:
    """This process's environment without our settings, for a server that nobody else shares."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    return {**kept, "LAYERLORE_LOCAL__SHARE": "false", **variables}

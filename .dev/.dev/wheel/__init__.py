"""A memory server for agents, over the Model Context Protocol: ``layerlore --help``."""

from layerlore.server.process.version import VERSION

__version__ = VERSION

"""A memory server for agents, over the Model Context Protocol: ``layerlore --help``."""

"""The version of layerlore, in a module that costs nothing to load."""

VERSION = "0.1.0"

"""The tools, each of them one function: its name, arguments and docstring are those that clients see.

``initialize`` and ``tools/list`` are answered from these modules, so they import nothing that takes long: what a tool
works with in ``memory`` and ``storage`` is a ``LateModule``, imported for mypy under ``TYPE_CHECKING`` beside it.
"""

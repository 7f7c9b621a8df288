"""The tools, each of them one function: its name, arguments and docstring are those that clients see.

``initialize`` and ``tools/list`` are answered from these modules, so they import nothing that takes long: a function
imports inside itself the modules of ``memory`` and ``storage`` that it works with. A thread makes these imports before
the first call.
"""

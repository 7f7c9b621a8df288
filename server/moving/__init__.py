"""``layerlore export`` and ``layerlore import``: files, progress, and what is printed."""

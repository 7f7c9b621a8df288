"""``python -m layerlore``, the same program as ``layerlore``."""

from layerlore.server.__main__ import main

if __name__ == "__main__":
    main()

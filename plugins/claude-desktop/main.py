"""The program of the bundle."""

from layerlore.server.__main__ import main

if __name__ == "__main__":
    main()

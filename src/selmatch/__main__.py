"""``python -m selmatch`` is the command line."""

from selmatch.cli import main

if __name__ == "__main__":
    main()

"""`python -m tokenmill` is the `tokenmill` command."""

import sys


def main() -> None:
    """Run the command, which is imported here: Ctrl-C while that lasts is no traceback either."""
    try:
        from tokenmill.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()

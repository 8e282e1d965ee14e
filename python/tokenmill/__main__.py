"""`python -m tokenmill` is the `tokenmill` command."""

import sys


def main() -> None:
    """Run the command; it is imported here, so that Ctrl-C during the import prints no traceback either."""
    try:
        from tokenmill.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()

"""`python -m tokenmill` is the `tokenmill` command."""

from tokenmill.cli import main

main()

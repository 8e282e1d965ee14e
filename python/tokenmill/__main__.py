"""`python -m tokenmill` is the `tokenmill` command."""

import signal

# Until the command can answer it, Ctrl-C ends this process without a word.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from tokenmill.cli import main

if __name__ == "__main__":
    main()

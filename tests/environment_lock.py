"""Environments next to `.venv` that tests create: one test process creates it, the others wait."""


def only_one(home):
    """Lock that environment for this process."""
    from filelock import FileLock

    return FileLock(home.with_name(f"{home.name}.lock"))

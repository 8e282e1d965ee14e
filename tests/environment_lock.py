"""Environments beside `.venv` that tests make: of several test processes, one makes it and the others wait."""


def only_one(home):
    """A context in which nobody else makes that environment."""
    from filelock import FileLock

    return FileLock(home.with_name(f"{home.name}.lock"))

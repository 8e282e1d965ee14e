"""How several processes share the tests: whole files, so that what a file sets up is set up once, the longest first."""

# Folders that one process runs alone: the tests of each share a browser, a campaign or a Ray cluster.
TOGETHER = ("tests/browser/", "tests/deep/", "tests/scale/")
# What takes longest, so that no process is left with one of these at the end; a file that is missing here costs only time.
LONGEST = (
    "tests/scale/",
    "tests/docs/test_pages.py",
    "tests/integration/test_real_readers.py",
    "tests/parity/test_vocabularies.py",
    "tests/parity/test_extend.py",
    "tests/deep/",
    "tests/parity/test_as_hf.py",
    "tests/integration/test_hub.py",
    "tests/parity/test_chat_templates.py",
    "tests/integration/test_prepare_command.py",
    "tests/integration/test_remote_output.py",
    "tests/terminal/test_sessions.py",
    "tests/integration/test_ranks.py",
    "tests/browser/",
)


def group_of(nodeid):
    """The file of a test, or the folder that runs together."""
    path = nodeid.split("::", 1)[0]
    return next((folder for folder in TOGETHER if path.startswith(folder)), path)


def order(items):
    """The items, those of the longest groups first; the rest stays as it is."""
    ranks = {group: rank for rank, group in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(ranks)))


def make_scheduler(config, log):
    """xdist's own scheduler of scopes, with our groups as the scopes."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    config.option.loadscopereorder = False  # it would put the files with the most tests first
    return Groups(config, log)

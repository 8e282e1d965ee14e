"""A store that answers 500 and 503, cuts connections and stops in the middle of an answer, while a job uses it."""

import itertools

import pytest
from harness import NOT_CONTENT, last_words, spread, tree
from jobs import Prepare

pytest.importorskip("obstore")
pytest.importorskip("moto.server")

from flaky_store import WAYS, FlakyStore

pytestmark = pytest.mark.s3
# One count for all tests: a name that another one has used holds a finished dataset.
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def store():
    made = FlakyStore()
    made.ask("deep", "PUT")
    yield made
    made.close()


class Jobs:
    """`prepare` to a store, or from one, and what it comes to when the store is well."""

    def __init__(self, campaign, store, direction):
        self.campaign, self.store, self.direction = campaign, store, direction
        self.job = Prepare(f"store-{direction}")
        self.inputs = campaign.root / "inputs" / self.job.name
        if not self.inputs.exists():
            self.job.make(campaign, self.inputs)
        for path in (self.inputs / "corpus").iterdir():
            store.ask(f"deep/corpus/{path.name}", "PUT", path.read_bytes())
        store.arm("", 0)
        name = self.new_name()
        run = self.run(name)
        assert run.code == 0, run.err
        self.requests, self.clean = store.requests, self.content(name)

    def new_name(self):
        return f"{self.direction}-{next(NUMBERS)}"

    def run(self, name, timeout=120):
        local = self.campaign.root / "stores" / name
        argv = self.job.argv(self.inputs, local)
        if self.direction == "to":
            argv[argv.index(local)] = f"s3://deep/{name}"
        else:
            argv[1] = "s3://deep/corpus/"
        environment = self.store.environment | {"TOKENMILL_CACHE": str(self.campaign.root / "caches" / name)}
        return self.campaign.run([*argv, "--no-report"], env=environment, timeout=timeout)

    def content(self, name):
        if self.direction == "from":
            return tree(self.campaign.root / "stores" / name)
        found = self.store.objects("deep", f"{name}/")
        return {
            key: data for key, data in found.items() if key not in NOT_CONTENT and not key.startswith(".")
        }

    def attempt(self, way, nth, *, for_ever=False, timeout=120):
        name = self.new_name()
        self.store.arm(way, nth, for_ever=for_ever)
        runs = [self.run(name, timeout)]
        self.store.arm("", 0)
        if runs[0].code != 0:
            runs.append(self.run(name, timeout))
        problems = []
        for run in runs:
            if run.hung:
                problems.append(("hang", f"did not end in {timeout} s"))
            elif run.traceback or run.mute:
                problems.append(("traceback", f"exit {run.code}: {last_words(run)}"))
        if runs[-1].code != 0:
            problems.append(
                ("wrong", f"run again, it fails with exit {runs[-1].code}: {last_words(runs[-1])}")
            )
        elif self.content(name) != self.clean:
            problems.append(("wrong", "ended well with other bytes"))
        return problems


def hurt(jobs, tally, tries, **options):
    lines = [
        tally.add(f"{jobs.direction} s3, {way} at request {nth}", jobs.attempt(way, nth, **options))
        for way, nth in tries
    ]
    return [line for some in lines for line in some]


@pytest.mark.parametrize("direction", ["to", "from"])
def test_a_few_faults_of_a_store(campaign, store, tally, direction):
    jobs = Jobs(campaign, store, direction)
    tries = [("503", jobs.requests // 3), ("cut", jobs.requests // 2)]
    assert not hurt(jobs, tally("store, a few faults"), tries)


@pytest.mark.deep
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("direction", ["to", "from"])
def test_every_request_fails_once(campaign, store, tally, direction, way):
    jobs = Jobs(campaign, store, direction)
    tries = [(way, nth) for nth in range(1, jobs.requests + 1)]
    assert not hurt(jobs, tally(f"store, {way}"), tries)


@pytest.mark.deep
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("way", ["503", "cut"])
@pytest.mark.parametrize("direction", ["to", "from"])
def test_a_store_that_goes_away(campaign, store, tally, direction, way):
    jobs = Jobs(campaign, store, direction)
    tries = [(way, nth) for nth in spread(jobs.requests, 3)]
    assert not hurt(jobs, tally("store, gone for good"), tries, for_ever=True, timeout=600)

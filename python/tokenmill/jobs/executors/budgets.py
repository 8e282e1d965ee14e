"""Two budgets of failure: what the cluster does to a unit, and what a unit does to its worker.

An error is the unit's own; a lost node is the cluster's. A worker that dies in a unit may be either, and no
exit status tells, so numbers must. A unit that kills its worker does so every time and never ends; a worker
killed from outside leaves a unit that ends when it is tried again. Each unit that ended after all proves its
deaths to have been the cluster's, and shows at what rate chance kills an attempt. A unit is set aside when
its worker died three times, and more often than that chance explains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill.jobs.executors.base import Task

UNIT_ATTEMPTS = 3
CLUSTER_ATTEMPTS = 20
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# One sound unit in a hundred jobs may be set aside by bad luck; the same command then does it.
_LUCK = 0.01


@dataclass
class Attempt:
    """One task on its way: what befell it so far, and when it may start again."""

    task: Task
    errors: int = 0
    deaths: int = 0
    faults: int = 0
    not_before: float = 0.0
    last: BaseException | None = None

    @property
    def tries(self) -> int:
        """How often it ended without a result."""
        return self.errors + self.deaths + self.faults

    def rest(self, now: float) -> None:
        """Not again before a pause that doubles with every try."""
        self.not_before = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self.tries - 1))


@dataclass
class Budgets:
    """Judges every attempt that failed; `aside` has the tasks that are given up."""

    aside: list[Attempt] = field(default_factory=list)
    _suspects: list[Attempt] = field(default_factory=list)
    _ended: int = 0
    _innocent_deaths: int = 0

    def ended(self, attempt: Attempt) -> None:
        """A unit is done: whatever killed its workers before was not the unit."""
        self._ended += 1
        self._innocent_deaths += attempt.deaths

    def failed(self, attempt: Attempt, now: float) -> bool:
        """Whether to try again, after a pause; the caller has counted what happened."""
        if attempt.errors >= UNIT_ATTEMPTS or attempt.tries >= CLUSTER_ATTEMPTS:
            self.aside.append(attempt)
            return False
        if attempt.deaths >= UNIT_ATTEMPTS:
            # Not judged before the others are done: only then is it known how many died of chance.
            self._suspects.append(attempt)
            return False
        attempt.rest(now)
        return True

    def judge(self, now: float) -> list[Attempt]:
        """With everything else done: the suspects that deserve another try; the others are set aside."""
        suspects, self._suspects = self._suspects, []
        allowed = self.deaths_allowed(self._ended + len(suspects))
        again = [attempt for attempt in suspects if attempt.deaths < allowed]
        for attempt in again:
            attempt.rest(now)
        self.aside += [attempt for attempt in suspects if attempt.deaths >= allowed]
        return again

    def deaths_allowed(self, units: int) -> int:
        """Three, or as many as none of the units would meet by chance: 3 of 100 killed -> 3, 20 -> 6."""
        attempts = self._ended + self._innocent_deaths
        rate = self._innocent_deaths / attempts if attempts else 0.0
        allowed = UNIT_ATTEMPTS
        while units * rate**allowed > _LUCK and allowed < CLUSTER_ATTEMPTS:
            allowed += 1
        return allowed

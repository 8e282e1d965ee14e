"""A call that fails or falls short: the right bytes, or a sentence and a second run that gives the right bytes."""

import errno

import pytest
from harness import FOR_EVER, SHORT, Fault, spread
from jobs import JOBS

FAULTS = {
    "write": (errno.EIO, errno.ENOSPC, errno.EINTR, SHORT),
    "fsync": (errno.EIO, errno.EINTR),
    "rename": (errno.EIO, errno.ENOSPC, errno.ESTALE),
    "openat": (errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE, errno.EINTR),
    "mkdir": (errno.EIO, errno.ENOSPC),
    "read": (errno.EIO, errno.ESTALE, errno.EINTR, SHORT),
    "stat": (errno.EIO, errno.ESTALE),
    "mmap": (errno.ENOMEM,),
    "unlink": (errno.EIO,),
    "flock": (errno.EIO, errno.ENOLCK),
}
FEW = ("prepare-tokenmill", "prepare-arrow", "train", "convert-megatron", "commit")


def faults_of(made, most):
    for kind, whats in FAULTS.items():
        for what in whats:
            for nth in spread(made.calls[kind], most):
                # A full disk stays full; everything else happens once.
                fault = Fault(kind, nth, what, FOR_EVER if what == errno.ENOSPC else 1)
                yield fault.label, {"fault": fault}


@pytest.mark.parametrize("name", FEW)
def test_a_few_faults(campaign, tally, name):
    made = campaign.prepared(JOBS[name])
    assert not campaign.hurt(made.job, tally("faults, a few"), dict(faults_of(made, 1)))


@pytest.mark.deep
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("name", JOBS)
def test_every_call_fails_once(campaign, tally, name):
    made = campaign.prepared(JOBS[name])
    assert not campaign.hurt(made.job, tally("faults at the Nth call"), dict(faults_of(made, 100_000)))

"""What people look at: plan before a job, report after it, accounting, doctor, bench."""

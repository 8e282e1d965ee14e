"""What people look at: the report of a job, the cost of a model, doctor, bench, the playground."""

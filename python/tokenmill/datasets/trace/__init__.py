"""Which rows and documents made which step of a run, told without a log: the order of rows is a function."""

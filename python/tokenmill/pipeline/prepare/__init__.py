"""A run of `prepare`, from settings to a published dataset, alone or among ranks."""

"""Reports on runs, datasets, vocabularies, model costs and the machine."""

"""The public calls that own a whole job: prepare, train; and the ranks that call them at once."""

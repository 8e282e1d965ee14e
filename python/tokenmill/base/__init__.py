"""Durable files, records, flat texts, the machine, logs and progress."""

"""What every room stands on: errors, durable files, flat texts, this machine, words for people."""

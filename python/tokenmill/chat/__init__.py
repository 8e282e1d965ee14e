"""Conversations to text, and which of it is learned: records, templates, traces of templates, turns, ids."""

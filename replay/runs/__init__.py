"""Whole programs under a session: the parent that starts them, the processes that join, and traces run as tests."""

"""The file of a trace: its lines, their chain and seal, writing, reading and checking it."""

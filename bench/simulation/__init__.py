"""A federation of many shards on one machine: our code, and calls that take the time they are said to take."""

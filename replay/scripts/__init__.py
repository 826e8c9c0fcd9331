"""The scripts of the modes: what each does with a call that comes."""

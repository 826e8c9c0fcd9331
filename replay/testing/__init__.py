"""The parts of the pytest plugin that only tests with a trace need."""

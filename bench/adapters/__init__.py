"""One module per library that is measured; each defines a class `Library` (see `harness.protocol.Adapter`)."""

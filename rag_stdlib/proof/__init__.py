"""Answers that carry their proof: certificates, the log that they stand in, and verification that fails closed."""

"""What anyone can check without input or output."""

"""What may not be written: secrets, the forms in which they come, and taking them out."""

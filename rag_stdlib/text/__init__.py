"""From files to text, and from text to chunks and terms."""

"""What a process keeps in memory of an index between searches: codes of its vectors, lengths and postings of its texts."""

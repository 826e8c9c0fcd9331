"""The one file: schema, connections, writing, searching, checking."""

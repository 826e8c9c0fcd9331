"""The harness of `make bench`: data sets, environments, the process that measures one library, tables and plots."""

"""The workspace's files, one module a file kind."""

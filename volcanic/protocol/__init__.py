"""A2A as pure data and functions: no I/O, no clock, no trio."""

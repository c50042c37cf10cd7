"""The tools a session can hold."""

"""Actors: state that handles one message at a time, supervised, and the Owner API that reaches it across processes."""

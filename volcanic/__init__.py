"""volcanic: an agent host that other agents call, and that calls them, over A2A 1.0."""

__version__ = "0.1.0"

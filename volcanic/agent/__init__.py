"""The assistant: sessions, the loop between model and tools, and the models behind one port."""

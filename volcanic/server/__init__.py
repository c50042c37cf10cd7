"""Being called: HTTP in, Owner API calls out."""

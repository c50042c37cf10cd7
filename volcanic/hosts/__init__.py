"""Where the parts meet: the roles of the processes, the tree they form, and the workspaces they serve."""

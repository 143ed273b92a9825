"""Files of other machines, and removals on this one."""

"""Files of other machines, and what may be removed of this one."""

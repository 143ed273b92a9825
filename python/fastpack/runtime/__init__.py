"""What a call takes of the machine: threads, memory and ranks, and how far it is."""

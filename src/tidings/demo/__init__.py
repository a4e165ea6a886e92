"""What it looks like: five members talk, two die in mid-broadcast. Simulated, or on real nodes."""

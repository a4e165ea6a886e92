"""The parts of a space-time diagram: where things stand, and how each kind of thing is drawn."""

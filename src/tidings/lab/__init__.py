"""Both sides together: those who run and those who judge, in one experiment."""

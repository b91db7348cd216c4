"""A sequence of modules that trains within a limit (rotor's problem)."""

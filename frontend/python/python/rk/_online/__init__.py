"""A budget for models whose graph changes at every step."""

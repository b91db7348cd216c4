"""Steps whose schedules and addresses were changed at random are refused by a law, or run as before."""

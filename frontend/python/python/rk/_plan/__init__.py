"""From a step and a budget to a plan: options, costs, the planner, plans on disk."""

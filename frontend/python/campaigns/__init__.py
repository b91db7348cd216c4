"""Campaigns: long searches for faults that run beside the tests, by machines that make up what to try."""

"""What people look at: reports, stages, and whether what runs is what was promised."""

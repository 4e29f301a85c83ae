"""What operations cost, as ratios to the least that each job needs, measured in one run."""

"""Files of matches and calibrations, and images."""

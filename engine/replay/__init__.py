"""A capture through the same coordinators, roll-up and live part as a job, in record time."""

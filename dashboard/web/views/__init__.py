"""What the page shows of groups, incidents and the cluster, and the shapes of it."""

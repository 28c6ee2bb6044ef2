"""Records of `__consumer_offsets` as a busy cluster's coordinators write them."""

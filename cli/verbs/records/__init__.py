"""The offsets topic itself: copy it, decode it, replay it."""

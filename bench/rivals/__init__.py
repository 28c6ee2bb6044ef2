"""KMinion and Burrow, and what each engine costs beside them."""

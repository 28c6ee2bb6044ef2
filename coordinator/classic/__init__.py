"""Groups of the classic protocol: what each GroupMetadata record (type 2) means for the group."""

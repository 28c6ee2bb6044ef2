"""Groups without members, and how the incidents of a group end when the group does."""

//! Searches in slices that are sorted, mostly by time.

/// Returns the last of the elements that are before a place.
pub fn last_before<T>(sorted: &[T], is_before: impl FnMut(&T) -> bool) -> Option<&T> {
    sorted.get(..sorted.partition_point(is_before))?.last()
}

/// Returns the elements from a place on.
pub fn from_place<T>(sorted: &[T], is_before: impl FnMut(&T) -> bool) -> &[T] {
    sorted.get(sorted.partition_point(is_before)..).unwrap_or_default()
}

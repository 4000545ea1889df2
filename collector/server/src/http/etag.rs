//! Conditional requests: whether an `If-None-Match` names an entity tag (RFC 9110, 13.1.2).

/// True if a header's list contains this tag: `*`, or the tag, weak or not (by weak comparison: a client that
/// has the tag has the bytes).
pub(super) fn names(list: &str, tag: &str) -> bool {
    let opaque = |text: &str| text.strip_prefix("W/").unwrap_or(text).to_owned();
    // The server's own tags contain no comma.
    list.split(',').map(str::trim).any(|one| one == "*" || opaque(one) == opaque(tag))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_tag_is_found_in_lists_and_as_a_weak_one() {
        for list in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "\"b\",W/\"a\" , \"c\"", "*"] {
            assert!(names(list, "\"a\""), "{list}");
        }
        for list in ["", "a", "\"b\"", "\"ab\"", "W/ \"a\"", "\"b\", \"c\""] {
            assert!(!names(list, "\"a\""), "{list}");
        }
    }
}

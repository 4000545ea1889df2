//! Numbers in human-readable form.

pub(crate) use tracetee_fleet::report::grouped;

/// `12.3 MB`.
pub(crate) fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{}.{} kB", number / 1_000, number % 1_000 / 100),
        1_000_000.. => format!("{}.{} MB", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
        assert_eq!(bytes(1_234_567), "1.2 MB");
        assert_eq!(bytes(999), "999 B");
    }
}

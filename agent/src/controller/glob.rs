//! Patterns of section names: `*` matches any bytes, everything else matches itself.

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob(Box<[u8]>);

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        Self(pattern.as_bytes().into())
    }

    /// True if the pattern matches all of `name`. Takes at most pattern × name steps.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let pattern = &self.0;
        let (mut at, mut in_name) = (0, 0);
        // Behind the last `*`, and where in the name it was tried.
        let mut star: Option<(usize, usize)> = None;
        loop {
            match (pattern.get(at), name.get(in_name)) {
                (Some(b'*'), _) => {
                    star = Some((at + 1, in_name));
                    at += 1;
                }
                (Some(expected), Some(byte)) if expected == byte => {
                    at += 1;
                    in_name += 1;
                }
                (None, None) => return true,
                (_, rest) => match star {
                    // The star takes one byte more.
                    Some((behind, tried)) if rest.is_some() || tried < name.len() => {
                        if tried >= name.len() {
                            return false;
                        }
                        star = Some((behind, tried + 1));
                        at = behind;
                        in_name = tried + 1;
                    }
                    _ => return false,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_glob_matches_as_its_regular_expression_does(
            pattern in "[ab*]{0,8}", name in "[ab]{0,10}"
        ) {
            let expression = format!("^{}$", pattern.replace('*', ".*"));
            let expected = regex::Regex::new(&expression).unwrap().is_match(&name);
            prop_assert_eq!(Glob::new(&pattern).matches(name.as_bytes()), expected);
        }
    }

    #[test]
    fn names_of_android() {
        assert!(Glob::new("Choreographer#doFrame*").matches(b"Choreographer#doFrame 123"));
        assert!(!Glob::new("activityStart").matches(b"activityStarted"));
    }
}

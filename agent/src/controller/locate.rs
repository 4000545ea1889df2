//! Where in a JSON text an error lies, as a path: serde_json knows the line and column alone.
//!
//! (serde_path_to_error knows the path, for 110 KB more of library: a second copy of every type's
//! reader.) The text is valid JSON, or the walk ends early with the path so far.

/// The path of the value that is being read, or was read last, at `line` and `column`, both counted
/// from 1 as serde_json counts them.
pub(crate) fn path_at(text: &[u8], line: usize, column: usize) -> String {
    let line_start = match line.checked_sub(2) {
        None => 0,
        Some(breaks) => text
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .nth(breaks)
            .map_or(text.len(), |(at, _)| at + 1),
    };
    let end = line_start.saturating_add(column).min(text.len());
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut at = 0;
    // A text in an object is a key until its colon.
    let mut last_text: &[u8] = &[];
    while at < end {
        let Some(&byte) = text.get(at) else { break };
        match byte {
            b'"' => {
                let from = at + 1;
                at = from;
                while text.get(at).is_some_and(|&byte| byte != b'"') {
                    at += 1 + usize::from(text.get(at) == Some(&b'\\'));
                }
                last_text = text.get(from..at.min(text.len())).unwrap_or_default();
            }
            b':' => {
                if let Some(Step::Key(key)) = steps.last_mut() {
                    *key = last_text;
                }
            }
            b'{' => steps.push(Step::Key(&[])),
            b'[' => steps.push(Step::Index(0)),
            b',' => {
                if let Some(Step::Index(index)) = steps.last_mut() {
                    *index += 1;
                }
            }
            b'}' | b']' => drop(steps.pop()),
            _ => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key([]) => {}
            Step::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&String::from_utf8_lossy(key));
            }
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

enum Step<'a> {
    /// In an object, at the value of this key.
    Key(&'a [u8]),
    /// In an array.
    Index(usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_are_located_as_serde_json_reports_them() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(default)]
        #[derive(Default)]
        #[allow(dead_code, reason = "it is what is read that matters")]
        struct Tree {
            number: u32,
            many: Vec<Tree>,
        }
        for (text, path) in [
            (r#"{"number": "x"}"#, "number"),
            (r#"{"many": [{}, {"number": -1}]}"#, "many[1].number"),
            ("{\n  \"other, {\\\" \": [1, 2],\n  \"many\": [\n {\"many\": 7}]}", "many[0].many"),
            (r#"{"many": [{"number": 1, "number": 2}]}"#, "many[0].number"),
            ("[]", ""),
        ] {
            let error = serde_json::from_str::<Tree>(text).err();
            let Some(error) = error else { continue };
            assert_eq!(
                path_at(text.as_bytes(), error.line(), error.column()),
                path,
                "{text} {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(text: Vec<u8>, line in 0usize..9, column in 0usize..99) {
            let _ = path_at(&text, line, column);
        }
    }
}

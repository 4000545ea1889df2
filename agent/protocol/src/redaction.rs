//! Rules that keep private data out of the names in a trace.
//!
//! The agent applies them before a name leaves the recorder's memory.

use crate::{choice, record};

/// Rules of one configuration: each is tried on each new name.
pub const MAX_RULES: usize = 64;

record! {
    /// Keeps private data out of names.
    pub struct Redaction {
        /// The rules, applied one after the other. The default rules replace SQL literals, URLs,
        /// `content://` addresses, e-mail addresses, and runs of six or more digits by placeholders.
        pub rules: Vec<Rule> = default_rules(); count(0..=MAX_RULES),
        /// Never writes unredacted names to a file, not even to a private one of the app: no recorder
        /// is crash-proof.
        pub strict: bool = false,
    }

    /// One rule of the redaction.
    #[derive(Eq)]
    pub struct Rule {
        /// The purpose of the rule, for reports.
        pub name: String = String::new(),
        /// A regular expression to search for in each name, in the syntax of the crate regex-lite: see docs/PRIVACY.md.
        pub pattern: String = String::new(); required(); check(is_given),
        /// The action on a match.
        pub action: Action = Action::default(),
        /// Names that match this expression stay as they are.
        pub except: Option<String> = None,
    }

    /// The replacement of a match.
    #[derive(Eq)]
    pub struct Replacement {
        /// The text that replaces the match, taken literally: `$1` has no meaning.
        pub with: String = "<redacted>".to_owned(),
    }
}

choice! {
    /// The action on a match.
    pub enum Action {
        /// A text replaces the match.
        Replace(Replacement) = "replace",
        /// The whole record is left out; of a section, its end too.
        Drop = "drop",
        /// `#` and eight hexadecimal digits replace the match: on one device the same ones for the
        /// same text, on another device different ones.
        Hash = "hash",
    }
}

impl Eq for Action {}

fn is_given(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() { Err("must not be empty".to_owned()) } else { Ok(()) }
}

fn default_rules() -> Vec<Rule> {
    // The number in these names joins the records of one frame.
    const VSYNC: &str = r"^(Choreographer#|DrawFrames? |Choreographer#doFrame|VSYNC|.*[vV]sync)";
    let rule = |name: &str, pattern: &str, except: Option<&str>| Rule {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        action: Action::Replace(Replacement { with: ["<", name, ">"].concat() }),
        except: except.map(str::to_owned),
    };
    vec![
        rule("sql", r"'[^']*'?", Some(r"^(monitor|Lock) contention")),
        rule("uri", r"[A-Za-z][A-Za-z0-9+.-]*://[^ ]*", None),
        rule("email", r"[^ <>@|]+@[^ <>@|]+\.[A-Za-z]{2,}", None),
        rule("digits", r"[0-9]{6,}", Some(VSYNC)),
    ]
}

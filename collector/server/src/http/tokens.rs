//! App of a request, by its bearer token.

use anyhow::{Context, Result, bail};
use hmac_sha256::Hash;
use std::path::Path;
use tracetee_protocol::http;

/// The right that a token gives, and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To send captures and loss reports and to fetch the configuration: a device's.
    Send,
    /// To upload mappings: that of whoever releases the app.
    Mappings,
}

/// The word behind a token of [`Right::Mappings`].
const MAPPINGS: &str = "mappings";

impl Right {
    /// The form of a line.
    const fn form(self) -> &'static str {
        match self {
            Self::Send => "APP TOKEN",
            Self::Mappings => "APP TOKEN mappings",
        }
    }
}

/// The apps that may send, and their tokens.
#[derive(Debug)]
pub struct Tokens {
    /// App, right, and SHA-256 of the token.
    known: Vec<(String, Right, [u8; 32])>,
}

/// A line of a token file: app, right, token. `Err`: it has another form.
fn entry(line: &str) -> Result<Option<(&str, Right, &str)>, ()> {
    let words: Vec<_> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        [app, token] => Ok(Some((app, Right::Send, token))),
        [app, token, MAPPINGS] => Ok(Some((app, Right::Mappings, token))),
        _ => Err(()),
    }
}

/// Reads the first token of a file that gives this right, for a program that sends.
///
/// # Errors
/// When the file is unreadable or has no such token.
pub fn first(path: &Path, right: Right) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the token file {}", path.display()))?;
    let mut entries = text.lines().filter_map(|line| entry(line).ok().flatten());
    let found = entries.find(|&(_, of, _)| of == right).map(|(.., token)| token.to_owned());
    // Files for `run` had the token alone.
    let mut words = text.split_whitespace();
    let alone = words.next().filter(|_| right == Right::Send && words.next().is_none());
    let found = found.or_else(|| alone.map(str::to_owned));
    found.with_context(|| {
        format!("{} has no token for this; add a line {}", path.display(), right.form())
    })
}

impl Tokens {
    /// Reads a file with a line `APP TOKEN` for each, or `APP TOKEN mappings`; an app may have several. `#` begins a
    /// comment.
    ///
    /// # Errors
    /// When the file is unreadable, a line is malformed, a token is short, or there is none.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the token file {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut known = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let Ok(entry) = entry(line) else {
                bail!("line {number}: expected APP TOKEN, or APP TOKEN mappings");
            };
            let Some((app, right, token)) = entry else { continue };
            if token.len() < 16 {
                bail!("line {number}: the token has fewer than 16 characters and could be guessed");
            }
            let digest = Hash::hash(token.as_bytes());
            if known.iter().any(|(_, of, known)| *of != right && *known == digest) {
                bail!(
                    "line {number}: an earlier line gives this token another right; use two tokens"
                );
            }
            known.push((app.to_owned(), right, digest));
        }
        if !known.iter().any(|(_, right, _)| *right == Right::Send) {
            bail!("contains no token, so no app could send; add a line APP TOKEN");
        }
        Ok(Self { known })
    }

    /// The app that an `Authorization` header is of, and its right. Digests are compared, all of them: how long it
    /// takes says nothing of the tokens.
    pub(crate) fn find(&self, authorization: Option<&str>) -> Option<(&str, Right)> {
        let token = authorization?.strip_prefix(http::BEARER)?;
        let digest = Hash::hash(token.trim().as_bytes());
        let mut found = None;
        for (app, right, known) in &self.known {
            let differs = known.iter().zip(&digest).fold(0, |sum, (a, b)| sum | (a ^ b));
            if differs == 0 {
                found = Some((app.as_str(), *right));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_app_and_others_of_none() {
        let text = "# two apps\ncom.a 0123456789abcdef\ncom.b ABCDEFGHIJKLMNOP # new\n\ncom.b second-token-of-b\n\
                    com.a third-token-for-names mappings\n";
        let tokens = Tokens::parse(text).unwrap();
        let find = |token: &str| tokens.find(Some(&format!("Bearer {token}")));
        assert_eq!(find("0123456789abcdef"), Some(("com.a", Right::Send)));
        assert_eq!(find("second-token-of-b"), Some(("com.b", Right::Send)));
        assert_eq!(find("third-token-for-names"), Some(("com.a", Right::Mappings)));
        for wrong in [None, Some(""), Some("Bearer "), Some("0123456789abcdef"), Some("Basic x")] {
            assert_eq!(tokens.find(wrong), None, "{wrong:?}");
        }
        let error = |text: &str| Tokens::parse(text).unwrap_err().to_string();
        let form = "line 1: expected APP TOKEN, or APP TOKEN mappings";
        assert_eq!(error("com.a\n"), form);
        assert_eq!(error("com.a 0123456789abcdef everything\n"), form);
        let both = "com.a 0123456789abcdef\ncom.a 0123456789abcdef mappings\n";
        assert!(error(both).starts_with("line 2: an earlier line gives this token another right"));
        assert!(error("\ncom.a short\n").starts_with("line 2: the token has fewer"));
        for none in ["# none\n", "com.a 0123456789abcdef mappings\n"] {
            assert!(error(none).contains("no app could send"));
        }
    }
}

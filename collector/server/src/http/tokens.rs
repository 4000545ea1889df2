//! Which app a request is of, by its bearer token.

use anyhow::{Context, Result, bail};
use hmac_sha256::Hash;
use std::path::Path;
use tracetee_protocol::http;

/// The apps that may send, and their tokens.
#[derive(Debug)]
pub struct Tokens {
    /// App, and SHA-256 of its token.
    known: Vec<(String, [u8; 32])>,
}

/// Reads the first token of a file, for a program that sends.
///
/// # Errors
/// When the file is unreadable or has no token.
pub fn first(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the token file {}", path.display()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut words = lines.filter_map(|line| line.split_whitespace().nth(1));
    words
        .next()
        .map(str::to_owned)
        .with_context(|| format!("{} contains no token; add a line APP TOKEN", path.display()))
}

impl Tokens {
    /// Reads a file with a line `APP TOKEN` for each; an app may have several. `#` begins a comment.
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
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let number = number + 1;
            let words: Vec<_> = line.split_whitespace().collect();
            let [app, token] = words[..] else {
                bail!("line {number}: expected APP TOKEN");
            };
            if token.len() < 16 {
                bail!("line {number}: the token has fewer than 16 characters and could be guessed");
            }
            known.push((app.to_owned(), Hash::hash(token.as_bytes())));
        }
        if known.is_empty() {
            bail!("contains no token, so no app could send; add a line APP TOKEN");
        }
        Ok(Self { known })
    }

    /// The app that an `Authorization` header is of. Digests are compared, all of them: how long it
    /// takes says nothing of the tokens.
    pub(crate) fn app(&self, authorization: Option<&str>) -> Option<&str> {
        let token = authorization?.strip_prefix(http::BEARER)?;
        let digest = Hash::hash(token.trim().as_bytes());
        let mut found = None;
        for (app, known) in &self.known {
            let differs = known.iter().zip(&digest).fold(0, |sum, (a, b)| sum | (a ^ b));
            if differs == 0 {
                found = Some(app.as_str());
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
        let text = "# two apps\ncom.a 0123456789abcdef\ncom.b ABCDEFGHIJKLMNOP # new\n\ncom.b second-token-of-b\n";
        let tokens = Tokens::parse(text).unwrap();
        assert_eq!(tokens.app(Some("Bearer 0123456789abcdef")), Some("com.a"));
        assert_eq!(tokens.app(Some("Bearer second-token-of-b")), Some("com.b"));
        for wrong in [None, Some(""), Some("Bearer "), Some("0123456789abcdef"), Some("Basic x")] {
            assert_eq!(tokens.app(wrong), None, "{wrong:?}");
        }
        let error = |text: &str| Tokens::parse(text).unwrap_err().to_string();
        assert_eq!(error("com.a\n"), "line 1: expected APP TOKEN");
        assert!(error("\ncom.a short\n").starts_with("line 2: the token has fewer"));
        assert!(error("# none\n").contains("no app could send"));
    }
}

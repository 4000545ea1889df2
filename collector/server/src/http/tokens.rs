//! Maps a bearer token to the app of a request, and a token or a proxy's user name to a reader of reports.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hex::FromHex;
use hmac_sha256::Hash;
use std::collections::HashMap;
use std::path::Path;
use tracetee_protocol::http;

/// The right that a token gives, and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// A device's right: to send captures and loss reports and to fetch the configuration.
    Send,
    /// The right of release builds: to upload mappings.
    Mappings,
    /// To read reports and captures.
    Read,
    /// To read, and to upload mappings.
    Admin,
    /// To read `/metrics`.
    Metrics,
}

/// The names of the rights in a token file.
const RIGHTS: [(&str, Right); 5] = [
    ("upload", Right::Send),
    ("mappings", Right::Mappings),
    ("read", Right::Read),
    ("admin", Right::Admin),
    ("metrics", Right::Metrics),
];
/// All apps, of a token that reads.
const ALL: &str = "*";
/// Begin of a token's SHA-256 in place of the token, and of a user's name.
const DIGEST: &str = "sha256:";
const USER: &str = "user:";

impl Right {
    /// The form of a line.
    const fn form(self) -> &'static str {
        match self {
            Self::Send => "APP TOKEN",
            Self::Mappings => "APP TOKEN mappings",
            Self::Read => "APP TOKEN read",
            Self::Admin => "APP TOKEN admin",
            Self::Metrics => "* TOKEN metrics",
        }
    }

    /// True if this right includes the other one.
    pub(super) fn has(self, other: Self) -> bool {
        self == other || self == Self::Admin && matches!(other, Self::Mappings | Self::Read)
    }
}

/// A reader of the reports of some apps.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    apps: Vec<String>,
    /// The user, or the digest of the token, as the key of this reader's share.
    pub(super) person: String,
}

impl Viewer {
    /// Sees all apps.
    pub(crate) fn of_all() -> Self {
        Self { apps: vec![ALL.to_owned()], person: String::new() }
    }

    /// Returns the apps; `None` for all.
    pub(crate) fn only(&self) -> Option<Vec<String>> {
        (!self.apps.iter().any(|app| app == ALL)).then(|| self.apps.clone())
    }

    /// True if an app may be seen.
    pub(crate) fn sees(&self, app: &str) -> bool {
        self.apps.iter().any(|name| name == ALL || name == app)
    }
}

/// The apps that may send, and their tokens.
#[derive(Debug)]
pub struct Tokens {
    /// The right that a token gives and its apps, by its SHA-256.
    known: HashMap<[u8; 32], (Right, Vec<String>)>,
    /// Apps that users may read, whose names a proxy gives.
    users: Vec<(String, String)>,
}

/// A parsed line of a token file: app, right, token. `Err`: the line is malformed.
fn entry(line: &str) -> Result<Option<(&str, Right, &str)>, ()> {
    let words: Vec<_> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        [app, token] => Ok(Some((app, Right::Send, token))),
        [app, token, word] => {
            let right = RIGHTS.iter().find(|(name, _)| *name == word).map(|(_, right)| *right);
            right.map(|right| Some((app, right, token))).ok_or(())
        }
        _ => Err(()),
    }
}

/// Reads the first token of a file that gives this right, for a program that sends: one of an app, if `wanted` names it.
/// Returns it after the app of its line.
///
/// # Errors
/// When the file is unreadable or has no such token.
pub fn first(path: &Path, right: Right, wanted: Option<&str>) -> Result<(Option<String>, String)> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the token file {}", path.display()))?;
    let mut entries = text.lines().filter_map(|line| entry(line).ok().flatten());
    let is_fit = |&(app, given, token): &(&str, Right, &str)| {
        given.has(right)
            && wanted.is_none_or(|wanted| [wanted, ALL].contains(&app))
            && ![DIGEST, USER].iter().any(|begin| token.starts_with(begin))
    };
    let found = entries.find(is_fit);
    let found = found.map(|(app, _, token)| (Some(app.to_owned()), token.to_owned()));
    // Files for `run` contained only the token.
    let mut words = text.split_whitespace();
    let alone = words.next().filter(|_| right == Right::Send && words.next().is_none());
    let found = found.or_else(|| Some((None, alone?.to_owned())));
    found.with_context(|| {
        let form = right.form().replace("APP", wanted.unwrap_or("APP"));
        format!("{} has no token for this; add a line {form}", path.display())
    })
}

impl Tokens {
    /// Reads a file with a line `APP TOKEN RIGHT` for each; an app may have several. `#` begins a comment. Without a right,
    /// the token sends. TOKEN may be `sha256:` and its digest in hexadecimal digits, or `user:NAME` for a reader.
    ///
    /// # Errors
    /// When the file is unreadable, a line is malformed, a token is short, a token sends for two apps, or there is none.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the token file {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let (mut known, mut users) = (HashMap::<_, (Right, Vec<String>)>::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let Ok(entry) = entry(line) else {
                bail!(
                    "line {number}: expected APP TOKEN, or APP TOKEN upload, mappings, read, admin or metrics"
                );
            };
            let Some((app, right, token)) = entry else { continue };
            let is_reader = right.has(Right::Read);
            if app == ALL && !is_reader && right != Right::Metrics {
                bail!("line {number}: only read, admin and metrics may be of all apps (*)");
            }
            if app != ALL && right == Right::Metrics {
                bail!("line {number}: metrics are of all apps; expected * TOKEN metrics");
            }
            if let Some(user) = token.strip_prefix(USER) {
                if user.is_empty() || !is_reader {
                    bail!("line {number}: expected APP user:NAME read, or admin");
                }
                users.push((app.to_owned(), user.to_owned()));
                continue;
            }
            if !token.starts_with(DIGEST) && token.len() < 16 {
                bail!("line {number}: the token has fewer than 16 characters and could be guessed");
            }
            let digest = match token.strip_prefix(DIGEST) {
                None => Hash::hash(token.as_bytes()),
                Some(digits) => <[u8; 32]>::from_hex(digits).ok().with_context(|| {
                    format!("line {number}: not a SHA-256 in 64 hexadecimal digits (printf %s TOKEN | sha256sum)")
                })?,
            };
            let (known_right, apps) = known.entry(digest).or_insert((right, Vec::new()));
            if *known_right != right {
                bail!(
                    "line {number}: an earlier line gives this token another right; use two tokens"
                );
            }
            // A capture names its app, but a device could name another one: the token decides.
            if right == Right::Send && apps.iter().any(|earlier| earlier != app) {
                bail!(
                    "line {number}: an earlier line gives this token to another app; a token that uploads decides under \
                     which app captures are stored, so use a token for each app"
                );
            }
            apps.push(app.to_owned());
        }
        if !known.values().any(|(right, _)| *right == Right::Send) {
            bail!("contains no token, so no app could send; add a line APP TOKEN");
        }
        Ok(Self { known, users })
    }

    /// True if the token with this digest may read `/metrics`. It may not where a token for reports must not be sent.
    pub(crate) fn may_scrape(&self, digest: &[u8; 32], is_private: bool) -> bool {
        self.known.get(digest).is_some_and(|(right, apps)| {
            let reads_all = right.has(Right::Read) && apps.iter().any(|app| app == ALL);
            *right == Right::Metrics || is_private && reads_all
        })
    }

    /// Returns the apps that the token with this digest may read; `None` if there are none.
    pub(crate) fn viewer_of_token(&self, digest: &[u8; 32]) -> Option<Viewer> {
        let (_, apps) = self.known.get(digest).filter(|(right, _)| right.has(Right::Read))?;
        let person = hex::encode(digest);
        Some(Viewer { apps: apps.clone(), person })
    }

    /// Returns the apps that a user may read; `None` if there are none. `user:*` is any user.
    pub(crate) fn viewer_of_user(&self, user: &str) -> Option<Viewer> {
        let lines = self.users.iter().filter(|(_, name)| name == user || name == ALL);
        let apps: Vec<String> = lines.map(|(app, _)| app.clone()).collect();
        let person = format!("{USER}{user}");
        (!apps.is_empty()).then_some(Viewer { apps, person })
    }

    /// Returns the right of the token with this digest, and its app: the one that the request names, if the token has it. The
    /// table's hash is randomly keyed, and a guesser cannot choose digests, so the time of a look-up reveals nothing about
    /// the tokens.
    pub(crate) fn find(&self, digest: &[u8; 32], named: Option<&str>) -> Option<(&str, Right)> {
        let (right, apps) = self.known.get(digest)?;
        let named = apps.iter().find(|app| *app == ALL || Some(app.as_str()) == named);
        Some((named.or(apps.first())?, *right))
    }
}

/// Reads the token of an `Authorization` header: a bearer, or the password of HTTP Basic, whose user does not count.
pub(super) fn password(authorization: &str) -> Option<String> {
    let (scheme, credentials) = authorization.split_once(' ')?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.to_owned());
    }
    let pair =
        scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(credentials).ok())??;
    Some(String::from_utf8(pair).ok()?.split_once(':')?.1.to_owned())
}

/// Returns the digest of the token in an `Authorization` header.
pub(super) fn digest_of(authorization: &str) -> Option<[u8; 32]> {
    let token = authorization.strip_prefix(http::BEARER)?;
    Some(Hash::hash(token.trim().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_their_apps_and_tokens_may_be_stored_as_digests() {
        // The digest is that of no token here.
        let text = "com.a 0123456789abcdef\n\
                    com.a sha256:d2d6c2ad23b0e1ddd3bb37ed31e1b3cfa0c7a3c2b0b5a0b0cde4a2e1f35bbd07 read\n\
                    com.b token-of-a-reader read\n* token-of-an-admin admin\ncom.a user:ann read\n";
        let tokens = Tokens::parse(text).unwrap();
        let viewer = |token: &str| tokens.viewer_of_token(&Hash::hash(token.as_bytes()));
        assert_eq!(viewer("token-of-a-reader").unwrap().only(), Some(vec!["com.b".to_owned()]));
        let admin = viewer("token-of-an-admin").unwrap();
        assert!(admin.only().is_none() && admin.sees("com.a") && admin.sees("com.z"));
        assert!(viewer("0123456789abcdef").is_none(), "a device reads nothing");
        let ann = tokens.viewer_of_user("ann").unwrap();
        assert!(ann.sees("com.a") && !ann.sees("com.b"));
        assert!(tokens.viewer_of_user("eve").is_none());
        let any = Tokens::parse("com.a 0123456789abcdef\ncom.b user:* read\n").unwrap();
        assert!(any.viewer_of_user("eve").unwrap().sees("com.b"));
        let digest = hex::encode(Hash::hash(b"token-of-a-device"));
        let hashed = Tokens::parse(&format!("com.a sha256:{digest}\n")).unwrap();
        let find = |tokens: &Tokens, text: &str| {
            tokens.find(&digest_of(text)?, None).map(|(app, right)| (app.to_owned(), right))
        };
        let device = find(&hashed, "Bearer token-of-a-device");
        assert_eq!(device, Some(("com.a".to_owned(), Right::Send)));
        assert_eq!(find(&hashed, &format!("Bearer sha256:{digest}")), None);
    }

    #[test]
    fn a_token_of_several_apps_serves_the_app_that_the_request_names() {
        let text = "com.z 0123456789abcdef\n\
                    com.a token-for-mappings mappings\ncom.b token-for-mappings mappings\n\
                    * token-of-an-admin admin\ncom.a token-of-an-admin admin\n";
        let tokens = Tokens::parse(text).unwrap();
        let find =
            |token: &str, app| tokens.find(&Hash::hash(token.as_bytes()), Some(app)).unwrap().0;
        assert_eq!(find("token-for-mappings", "com.a"), "com.a");
        assert_eq!(find("token-for-mappings", "com.b"), "com.b");
        assert_ne!(find("token-for-mappings", "com.z"), "com.z");
        assert_eq!(find("token-of-an-admin", "com.b"), ALL);
        assert_eq!(find("0123456789abcdef", "com.a"), "com.z");
    }

    #[test]
    fn metrics_are_for_tokens_of_all_apps() {
        let text = "com.a 0123456789abcdef\ncom.a token-of-a-reader read\n* token-of-an-admin admin\n* token-that-scrapes metrics\n";
        let tokens = Tokens::parse(text).unwrap();
        let may =
            |token: &str, is_private| tokens.may_scrape(&Hash::hash(token.as_bytes()), is_private);
        assert!(may("token-that-scrapes", false) && may("token-that-scrapes", true));
        assert!(may("token-of-an-admin", true) && !may("token-of-an-admin", false));
        for other in ["0123456789abcdef", "token-of-a-reader", "unknown"] {
            assert!(!may(other, true), "{other}");
        }
        assert!(tokens.viewer_of_token(&Hash::hash(b"token-that-scrapes")).is_none());
    }

    #[test]
    fn a_token_is_a_bearer_or_a_password() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic YW55Ym9keTphYmM=", Some("abc")),
            ("basic OmE6Yg==", Some("a:b")),
            ("Basic YWJj", None),
            ("Basic %", None),
            ("Digest abc", None),
            ("abc", None),
        ] {
            assert_eq!(password(header).as_deref(), token, "{header}");
        }
    }

    #[test]
    fn a_token_is_of_one_app_and_others_of_none() {
        let text = "# two apps\ncom.a 0123456789abcdef\ncom.b ABCDEFGHIJKLMNOP # new\n\ncom.b second-token-of-b\n\
                    com.a third-token-for-names mappings\n";
        let tokens = Tokens::parse(text).unwrap();
        let find = |token: &str| tokens.find(&digest_of(&format!("Bearer {token}"))?, None);
        assert_eq!(find("0123456789abcdef"), Some(("com.a", Right::Send)));
        assert_eq!(find("second-token-of-b"), Some(("com.b", Right::Send)));
        assert_eq!(find("third-token-for-names"), Some(("com.a", Right::Mappings)));
        assert_eq!(find(""), None);
        for wrong in ["", "0123456789abcdef", "Basic x"] {
            assert_eq!(digest_of(wrong), None, "{wrong:?}");
        }
        let error = |text: &str| Tokens::parse(text).unwrap_err().to_string();
        let form =
            "line 1: expected APP TOKEN, or APP TOKEN upload, mappings, read, admin or metrics";
        assert_eq!(error("com.a\n"), form);
        assert_eq!(error("com.a 0123456789abcdef everything\n"), form);
        let both = "com.a 0123456789abcdef\ncom.a 0123456789abcdef mappings\n";
        assert!(error(both).starts_with("line 2: an earlier line gives this token another right"));
        let two_apps = "com.a 0123456789abcdef\ncom.b 0123456789abcdef upload\n";
        assert!(error(two_apps).starts_with("line 2: an earlier line gives this token to another"));
        let twice = "com.a 0123456789abcdef\ncom.a 0123456789abcdef upload\n";
        assert!(Tokens::parse(twice).is_ok(), "the same app");
        for (line, why) in [
            ("* 0123456789abcdef", "only read, admin and metrics may be of all apps"),
            ("com.a 0123456789abcdef metrics", "metrics are of all apps"),
            ("com.a sha256:12 read", "not a SHA-256"),
            ("com.a user:eve", "expected APP user:NAME read"),
            ("com.a user: read", "expected APP user:NAME read"),
        ] {
            assert!(error(line).starts_with(&format!("line 1: {why}")), "{line}: {}", error(line));
        }
        assert!(error("\ncom.a short\n").starts_with("line 2: the token has fewer"));
        for none in ["# none\n", "com.a 0123456789abcdef mappings\n"] {
            assert!(error(none).contains("no app could send"));
        }
    }
}

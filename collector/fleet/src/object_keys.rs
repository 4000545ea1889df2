//! Keys of stored captures: `raw/v1/app=A/dt=YYYY-MM-DD/ver=V/ID.ftrace.zst`, the same in a directory and on an object
//! store. A key is made only from the capture's own facts, so that storing a capture twice gives one object.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The ending of stored captures.
const CAPTURE: &str = ".ftrace.zst";
/// Limits of names of apps and versions, raw and encoded: a file's name has at most 255 bytes.
const MAX_BYTES: usize = 100;
const MAX_ENCODED_BYTES: usize = 200;
/// Characters of a name that are escaped; the first must not be a dot.
const FIRST: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');
const LATER: &AsciiSet = &FIRST.remove(b'.');

/// The position of the version in the text of a UUID.
const VERSION_AT: usize = 14;

/// The key of a stored capture.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawKey {
    /// The app.
    pub app: String,
    /// The day of the capture's id, YYYY-MM-DD, UTC.
    pub day: String,
    /// The app's version.
    pub ver: String,
    /// The capture's id.
    pub id: String,
}

impl RawKey {
    /// Returns the path; names are encoded by [`encode`].
    #[must_use]
    pub fn path(&self) -> String {
        let Self { app, day, ver, id } = self;
        format!("raw/v1/app={}/dt={day}/ver={}/{id}{CAPTURE}", encode(app), encode(ver))
    }

    /// Returns the begin of the paths of all captures of the app.
    #[must_use]
    pub fn below_app(&self) -> String {
        format!("raw/v1/app={}/", encode(&self.app))
    }

    /// Returns the name for data of this capture: the id alone may also belong to another app's capture.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.id, encode(&self.app))
    }

    /// Returns the ids of the capture and of its profile, one of which this is, as keys. The version and the day are this one's.
    #[must_use]
    pub fn pair(&self) -> Option<[Self; 2]> {
        let (capture, profile) = pair(&self.id)?;
        Some([capture, profile].map(|id| Self { id, ..self.clone() }))
    }

    /// Parses a path, and ignores what precedes `raw/v1/`. Returns `None` if it is not a capture's.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let rest = path.get(path.rfind("raw/v1/")? + "raw/v1/".len()..)?;
        let mut parts = rest.split('/');
        let mut part = |prefix: &str| parts.next()?.strip_prefix(prefix);
        let (app, day, ver) = (part("app=")?, part("dt=")?, part("ver=")?);
        let id = part("")?.strip_suffix(CAPTURE)?;
        let is_end = parts.next().is_none();
        let is_day =
            day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let is_id =
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        (is_end && is_day && is_id).then(|| {
            let [day, id] = [day, id].map(str::to_owned);
            Self { app: decode(app), day, ver: decode(ver), id }
        })
    }
}

/// Returns the kind of a profile of Android's own, of version 8 of its id and with a label `KIND.CAUSE`; `None` for a capture.
#[must_use]
pub fn profile_kind<'a>(id: &str, window: Option<&'a str>) -> Option<&'a str> {
    let window = window.unwrap_or_default();
    is_profile(id).then(|| window.split_once('.').map_or(window, |(kind, _)| kind))
}

/// True for the id of a profile.
#[must_use]
pub fn is_profile(id: &str) -> bool {
    id.as_bytes().get(VERSION_AT) == Some(&b'8')
}

/// Returns the id of the capture, and that of the profile, which belong together: one of them is `id`.
#[must_use]
pub fn pair(id: &str) -> Option<(String, String)> {
    let (before, after) = (id.get(..VERSION_AT)?, id.get(VERSION_AT + 1..)?);
    Some((format!("{before}7{after}"), format!("{before}8{after}")))
}

/// Encodes a name as a part of a path: bytes other than letters, digits, `.`, `_` and `-`, and a first dot, become `!XX`.
/// The result is cut after the last whole character within 100 bytes, or 200 encoded bytes, and is never empty.
#[must_use]
pub fn encode(name: &str) -> String {
    let mut text = String::new();
    for (offset, char) in name.char_indices() {
        let whole = text.len();
        let escaped = if text.is_empty() { FIRST } else { LATER };
        text.extend(utf8_percent_encode(char.encode_utf8(&mut [0; 4]), escaped));
        if offset + char.len_utf8() > MAX_BYTES || text.len() > MAX_ENCODED_BYTES {
            text.truncate(whole);
            break;
        }
    }
    if text.is_empty() { crate::rows::UNKNOWN.to_owned() } else { text.replace('%', "!") }
}

/// Returns the app in the name of a report or a note, `ID.APP`.
#[must_use]
pub fn app_of_report(name: &str) -> Option<String> {
    Some(decode(name.split_once('.')?.1))
}

/// A kind of report, which a device sends in addition to captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportKind {
    /// A loss report.
    Losses,
    /// A part of a ledger.
    Ledger,
}

impl ReportKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Losses, Self::Ledger];

    /// Returns the directory below the store's root.
    #[must_use]
    pub const fn directory(self) -> &'static str {
        match self {
            Self::Losses => "losses/v1",
            Self::Ledger => "ledgers/v1",
        }
    }

    const fn ending(self) -> &'static str {
        match self {
            Self::Losses => ".json",
            Self::Ledger => ".ledger",
        }
    }
}

/// The key of a stored report: `DIRECTORY/dt=YYYY-MM-DD/ID.APP.ENDING`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportKey {
    /// The kind.
    pub kind: ReportKind,
    /// The day, YYYY-MM-DD, UTC.
    pub day: String,
    /// The id and the encoded app, `ID.APP`, by which the tables know it.
    pub name: String,
}

impl ReportKey {
    /// Returns the key of an app's report.
    #[must_use]
    pub fn new(kind: ReportKind, day: String, id: &str, app: Option<&str>) -> Self {
        Self { kind, day, name: format!("{id}.{}", encode(app.unwrap_or_default())) }
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> String {
        let Self { kind, day, name } = self;
        format!("{}/dt={day}/{name}{}", kind.directory(), kind.ending())
    }

    /// Parses a path, and ignores what precedes the directory. Returns `None` if it is not a report's.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        ReportKind::ALL.into_iter().find_map(|kind| {
            let directory = kind.directory();
            let rest = path.get(path.rfind(directory)? + directory.len()..)?;
            let (day, file) = rest.strip_prefix("/dt=")?.split_once('/')?;
            let name = file.strip_suffix(kind.ending())?.to_owned();
            Some(Self { kind, day: day.to_owned(), name })
        })
    }
}

fn decode(text: &str) -> String {
    let text = text.replace('%', "%25").replace('!', "%");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_key_is_one_path_and_back(app in "[^\0]{1,20}", ver in ".{1,20}", id in "[0-9a-f-]{36}") {
            let key = RawKey { app, day: "2026-11-21".to_owned(), ver, id };
            let path = key.path();
            proptest::prop_assert_eq!(path.matches('/').count(), 5);
            proptest::prop_assert!(path.split('/').all(|part| !part.starts_with('.')), "{}", path);
            proptest::prop_assert_eq!(RawKey::parse(&format!("/some/where/{path}")), Some(key));
        }

        /// However long names are: a file system takes them, and what lies there is found again.
        #[test]
        fn a_cut_key_is_a_file_s_name_and_leads_back(app in "[^\0]{0,300}", ver in "[äa€😀 .]{0,300}") {
            let id = "019a1fd7-2955-7cfa-a44a-a7427d9591d5".to_owned();
            let path = RawKey { app, day: "2026-11-21".to_owned(), ver, id }.path();
            proptest::prop_assert!(path.split('/').all(|part| part.len() <= 255), "{}", path);
            proptest::prop_assert_eq!(RawKey::parse(&path).unwrap().path(), path);
        }

        #[test]
        fn no_path_is_too_much_for_it(path in "(raw/v1/|app=|dt=|ver=|/|!|[a-f0-9]{0,10}|\\.ftrace\\.zst){0,12}") {
            let _ = RawKey::parse(&path);
        }
    }

    #[test]
    fn a_profile_and_its_capture_lead_to_each_other() {
        let capture = "019a1fd7-2955-7cfa-a44a-a7427d9591d5";
        let profile = "019a1fd7-2955-8cfa-a44a-a7427d9591d5";
        for id in [capture, profile] {
            assert_eq!(pair(id), Some((capture.to_owned(), profile.to_owned())));
        }
        assert_eq!(profile_kind(profile, Some("system_trace.jank")), Some("system_trace"));
        assert_eq!(profile_kind(profile, None), Some(""));
        assert_eq!(profile_kind(capture, Some("system_trace.jank")), None);
        assert_eq!((pair("00"), is_profile("")), (None, false));
    }

    #[test]
    fn other_paths_are_none() {
        for path in [
            "",
            "raw/v1/app=a/dt=2026-11-21/ver=1/x.json",
            "raw/v1/app=a/dt=2026-11-21/ver=1/../x.ftrace.zst",
            "raw/v1/app=a/dt=now/ver=1/00.ftrace.zst",
            "raw/v1/app=a/dt=2026-11-21/00.ftrace.zst",
            "raw/v1/app=a/dt=2026-11-21/ver=1/zz.ftrace.zst",
        ] {
            assert_eq!(RawKey::parse(path), None, "{path}");
        }
        assert_eq!(encode(""), "unknown");
        assert_eq!(encode("../a b"), "!2E.!2Fa!20b");
    }
}

//! The names of the spool's files, which are its whole state.
//!
//! `ready/` and `sending/`: `ID~LABEL~PRIORITY~TRIES~FLAGS~MADE~DIGEST.ftrace.zst`; `rec/`:
//! `OWNER~ID~LABEL~PRIORITY~MADE.ftrace.zst`; `lost/`: `ID~LABEL~REASON`, with `~u` appended if
//! the capture may have arrived. A file whose name cannot be parsed is not ours.

use crate::timestamp::Timestamp;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// Separator of a name's fields; no field contains it.
const BETWEEN: char = '~';
/// Extension of captures.
pub(crate) const EXTENSION: &str = ".ftrace.zst";
/// Maximum length of a label in characters.
const MAX_LABEL_CHARS: usize = 64;

/// Name of a capture that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CaptureName {
    pub(crate) id: Uuid,
    /// Window of the capture.
    pub(crate) label: String,
    /// Priority; lower ones are deleted first when there is no room.
    pub(crate) priority: u32,
    /// Number of failed uploads.
    pub(crate) tries: u32,
    /// True if the process was killed before it completed the capture.
    pub(crate) recovered: bool,
    /// True if the capture was sent and no answer came.
    pub(crate) unconfirmed: bool,
    /// Original size of a truncated capture in bytes.
    pub(crate) cut_from: Option<u64>,
    pub(crate) made: Timestamp,
    /// SHA-256 of the file.
    pub(crate) digest: [u8; 32],
}

impl CaptureName {
    pub(crate) fn to_text(&self) -> String {
        let mut flags = String::new();
        if self.recovered {
            flags.push('r');
        }
        if self.unconfirmed {
            flags.push('u');
        }
        if let Some(bytes) = self.cut_from {
            flags.push_str(&format!("c{bytes}"));
        }
        let digest = URL_SAFE_NO_PAD.encode(self.digest);
        let Self { id, label, priority, tries, made, .. } = self;
        let made = made.to_text();
        format!("{id}~{label}~{priority}~{tries}~{flags}~{made}~{digest}{EXTENSION}")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.strip_suffix(EXTENSION)?.split(BETWEEN);
        let id = Uuid::try_parse(fields.next()?).ok()?;
        let label = fields.next()?.to_owned();
        let priority = fields.next()?.parse().ok()?;
        let tries = fields.next()?.parse().ok()?;
        let flags = fields.next()?;
        let (recovered, flags) = take(flags, 'r');
        let (unconfirmed, flags) = take(flags, 'u');
        let cut_from = match take(flags, 'c') {
            (true, bytes) => Some(bytes.parse().ok()?),
            (false, "") => None,
            (false, _) => return None,
        };
        let made = Timestamp::parse(fields.next()?)?;
        let digest = URL_SAFE_NO_PAD.decode(fields.next()?).ok()?.try_into().ok()?;
        let name =
            Self { id, label, priority, tries, recovered, unconfirmed, cut_from, made, digest };
        // Each name has one spelling: a different one was not written by us.
        (fields.next().is_none() && name.to_text() == text).then_some(name)
    }
}

fn take(text: &str, flag: char) -> (bool, &str) {
    text.strip_prefix(flag).map_or((false, text), |rest| (true, rest))
}

/// Name of a capture that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordingName {
    /// Name of the lock of the process that writes it.
    pub(crate) owner: String,
    pub(crate) id: Uuid,
    pub(crate) label: String,
    pub(crate) priority: u32,
    pub(crate) made: Timestamp,
}

impl RecordingName {
    pub(crate) fn to_text(&self) -> String {
        let Self { owner, id, label, priority, made } = self;
        format!("{owner}~{id}~{label}~{priority}~{}{EXTENSION}", made.to_text())
    }

    /// Parses a name. Ignores a suffix, which writers append while they write.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(BETWEEN);
        let owner = fields.next()?.to_owned();
        let id = Uuid::try_parse(fields.next()?).ok()?;
        let label = fields.next()?.to_owned();
        let priority = fields.next()?.parse().ok()?;
        let (made, rest) = fields.next()?.split_once('.')?;
        let made = Timestamp::parse(made)?;
        let is_whole = EXTENSION.get(1..).is_some_and(|name| rest.starts_with(name));
        (is_whole && fields.next().is_none()).then_some(Self { owner, id, label, priority, made })
    }
}

/// Name of a lost capture.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LostName {
    pub(crate) id: Uuid,
    pub(crate) label: String,
    pub(crate) reason: String,
    /// True if the capture may have arrived.
    pub(crate) unconfirmed: bool,
}

impl LostName {
    /// Makes the name of a capture that never left the device.
    pub(crate) fn new(id: Uuid, label: String, reason: &str) -> Self {
        Self { id, label, reason: reason.to_owned(), unconfirmed: false }
    }

    pub(crate) fn to_text(&self) -> String {
        let Self { id, label, reason, .. } = self;
        let flag = if self.unconfirmed { "~u" } else { "" };
        format!("{id}~{label}~{reason}{flag}")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(BETWEEN);
        let id = Uuid::try_parse(fields.next()?).ok()?;
        let label = fields.next()?.to_owned();
        let reason = fields.next()?.to_owned();
        let unconfirmed = match fields.next() {
            None => false,
            Some("u") => true,
            Some(_) => return None,
        };
        fields.next().is_none().then_some(Self { id, label, reason, unconfirmed })
    }
}

/// Makes a label safe for a name.
pub(crate) fn label(text: &str) -> String {
    let safe = |char: char| match char {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => char,
        _ => '_',
    };
    text.chars().take(MAX_LABEL_CHARS).map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Now;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = CaptureName> {
        let numbers = (any::<u128>(), any::<u32>(), any::<u32>(), any::<[u8; 32]>());
        let flags = (any::<bool>(), any::<bool>(), any::<Option<u64>>());
        let made = (any::<u32>(), any::<u64>(), any::<u64>());
        ("[ -}é\n]{0,80}", numbers, flags, made).prop_map(|(text, numbers, flags, made)| {
            CaptureName {
                id: Uuid::from_u128(numbers.0),
                label: label(&text),
                priority: numbers.1,
                tries: numbers.2,
                recovered: flags.0,
                unconfirmed: flags.1,
                cut_from: flags.2,
                made: Timestamp(Now { boot: made.0, boot_ms: made.1, real_ms: made.2 }),
                digest: numbers.3,
            }
        })
    }

    proptest! {
        #[test]
        fn a_name_says_all_and_fits_the_file_system(name in names(), owner in "[0-9a-f]{1,24}") {
            let text = name.to_text();
            prop_assert!(text.len() <= 255 && !text.contains(['/', '\n', '\0']), "{text}");
            prop_assert_eq!(CaptureName::parse(&text), Some(name.clone()));
            let CaptureName { id, label, priority, made, .. } = name;
            let rec = RecordingName { owner, id, label: label.clone(), priority, made };
            prop_assert!(rec.to_text().len() + 20 <= 255);
            prop_assert_eq!(RecordingName::parse(&rec.to_text()), Some(rec.clone()));
            prop_assert_eq!(RecordingName::parse(&(rec.to_text() + ".123.part")), Some(rec));
            for unconfirmed in [false, true] {
                let lost = LostName { id, label: label.clone(), reason: "age".to_owned(), unconfirmed };
                prop_assert_eq!(LostName::parse(&lost.to_text()), Some(lost));
            }
        }

        #[test]
        fn other_texts_are_no_capture_names(text in "\\PC{0,120}", name in names()) {
            prop_assert_eq!(CaptureName::parse(&text), None);
            let mut broken = name.to_text();
            let at = text.len() % broken.len();
            if broken.is_char_boundary(at) {
                broken.remove(at);
                // Either it is none, or it is another one, whose text it is.
                if let Some(other) = CaptureName::parse(&broken) {
                    prop_assert_eq!(other.to_text(), broken);
                }
            }
        }
    }
}

//! Records as the pool has them, of whatever form, for those who read it.

use crate::layout::Form;
use crate::packed::Packed;
use crate::record::Record;
use crate::rich::{Details, Rich};

/// Parses a record from the pool. `pid` is that of its process, because a packed record has none;
/// `scratch` receives the text of a packed or rich record. `None` for notes, for complete events (see
/// [`Rich::Complete`]) and for bytes that are no record.
pub fn parse_stored<'a>(
    form: Form,
    bytes: &'a [u8],
    pid: u32,
    scratch: &'a mut Vec<u8>,
) -> Option<Record<'a>> {
    match form {
        Form::Text => Record::parse(bytes),
        Form::Packed => {
            *scratch = Packed::parse(bytes)?.to_text(pid);
            Record::parse(scratch)
        }
        Form::Rich => {
            let Rich::Marker(packed, _) = Rich::parse(bytes)? else { return None };
            *scratch = packed.to_text(pid);
            Record::parse(scratch)
        }
        Form::Note => None,
    }
}

/// The details of a record from the pool.
#[must_use]
pub fn details_of(form: Form, bytes: &[u8]) -> Details<'_> {
    match form {
        Form::Rich => match Rich::parse(bytes) {
            Some(Rich::Marker(_, details)) => details,
            _ => Details::default(),
        },
        Form::Text | Form::Packed | Form::Note => Details::default(),
    }
}

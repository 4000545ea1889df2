//! Records in any of the pool's forms, for readers.

use crate::details::Details;
use crate::layout::Form;
use crate::packed::Packed;
use crate::record::Record;
use crate::rich::Rich;

/// Parses a record from the pool, and its details. `pid` is the id of its process, because a packed record has none;
/// `scratch` receives the text of a packed or rich record. `None` for notes, for complete events (see
/// [`Rich::Complete`]) and for bytes that are not a record.
pub fn parse_stored<'a>(
    form: Form,
    bytes: &'a [u8],
    pid: u32,
    scratch: &'a mut Vec<u8>,
) -> Option<(Record<'a>, Details<'a>)> {
    let (packed, details) = match form {
        Form::Text => return Some((Record::parse(bytes)?, Details::default())),
        Form::Packed => (Packed::parse(bytes)?, Details::default()),
        Form::Rich => {
            let Rich::Marker(packed, details) = Rich::parse(bytes)? else { return None };
            (packed, details)
        }
        Form::Note => return None,
    };
    *scratch = packed.to_text(pid);
    Some((Record::parse(scratch)?, details))
}

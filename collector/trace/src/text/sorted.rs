//! Sorts the lines of a text by time, for [`crate::read_file`]: files of one processor each, one after the other, are out of order.

use super::line;
use crate::{Kind, open};
use std::io::{Read, Seek};

/// Limit of a text that is sorted, which takes twice its size in memory. A longer one keeps its order, and ends may get wrong
/// begins.
const MAX_BYTES: u64 = 256 << 20;

/// Returns the lines by time; `None` if the file is too long, damaged or no text. Lines of the same time keep their order, and
/// lines without a time stay before the next event.
pub(crate) fn sorted(file: impl Read + Seek + 'static) -> Option<Vec<u8>> {
    let (mut text, mut whole) = (open(file).ok()?, Vec::new());
    let is_text = Kind::sniff(&mut *text).ok()? == Kind::Text;
    let bytes = text.take(MAX_BYTES + 1).read_to_end(&mut whole).ok()?;
    if !is_text || bytes as u64 > MAX_BYTES {
        return None;
    }
    let (mut places, mut begin, mut end) = (Vec::new(), 0, 0);
    for text in whole.split_inclusive(|&byte| byte == b'\n') {
        end += text.len();
        if let Ok(event) = line::split(text.trim_ascii_end()) {
            places.push((event.at_ns, begin..end));
            begin = end;
        }
    }
    places.sort_by_key(|&(at_ns, _)| at_ns);
    let mut sorted = Vec::with_capacity(whole.len() + 1);
    for index in places.into_iter().map(|(_, index)| index).chain(Some(begin..whole.len())) {
        sorted.extend_from_slice(whole.get(index).unwrap_or_default());
        if sorted.last().is_some_and(|&byte| byte != b'\n') {
            sorted.push(b'\n');
        }
    }
    Some(sorted)
}

//! A capture in the form for download: compressed text, with names restored by a mapping.

use std::io::{self, BufReader, Read};
use tracetee_jank::Watch;
use tracetee_trace::Mapping;

const LEVEL: i32 = 1;
const BUFFER_BYTES: usize = 64 * 1024;

/// Restores the names in a stored capture.
pub(super) fn with_names(capture: &[u8], mapping: &Mapping, watch: &Watch) -> io::Result<Vec<u8>> {
    let text = zstd::stream::Decoder::new(capture)?;
    let text = BufReader::with_capacity(BUFFER_BYTES, Watched { text, watch });
    let mut out = zstd::stream::Encoder::new(Vec::new(), LEVEL)?;
    mapping.apply_to_text(text, &mut out)?;
    out.finish()
}

/// A text that ends with an error when its reader is gone, or when it takes too long.
struct Watched<'a, R> {
    text: R,
    watch: &'a Watch,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.check().map_err(|stopped| io::Error::other(stopped.to_string()))?;
        self.text.read(buffer)
    }
}

//! The body of a capture: independent zstd frames of at most 256 KiB of text. A comment line in the first
//! frame, which is not compressed, holds the capture's metadata.
//!
//! Reads one frame at a time, so memory does not grow with the capture.

use crate::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use tracetee_frames::{FRAME_BYTES, frame_bytes, store, stored_text};
use tracetee_protocol::CaptureMeta;
use tracetee_protocol::notes::{COMMENT, CUT_HERE};

/// Maximum compressed size of the note that a capture was cut.
const CUT_LINE_BYTES: u64 = 256;

/// Truncates a capture that is larger than `most` at the end of a frame, and appends a note that says so.
/// Returns its former size; `None` if it was not larger; an error if not even one frame fits.
pub(crate) fn cut(path: &Path, most: u64) -> Result<Option<u64>, Error> {
    let mut file = tracetee_os::open_with(File::options().read(true).write(true), path)
        .map_err(Error::io("open", path))?;
    let had = file.metadata().map_err(Error::io("inspect", path))?.len();
    if had <= most {
        return Ok(None);
    }
    let room = most.saturating_sub(CUT_LINE_BYTES);
    let kept = whole_frames(&mut file, room).map_err(Error::io("read", path))?;
    if kept == 0 {
        return Err(Error::NotKept { reason: "size" });
    }
    let line = format!("{COMMENT}{CUT_HERE}{kept} of {had} bytes are kept\n");
    let mut tail = Vec::new();
    store(line.as_bytes(), &mut tail);
    file.set_len(kept).map_err(Error::io("truncate", path))?;
    file.seek(SeekFrom::End(0)).map_err(Error::io("seek in", path))?;
    file.write_all(&tail).map_err(Error::io("write", path))?;
    Ok(Some(had))
}

/// Truncates a capture after its last complete frame, because Perfetto rejects an incomplete one. Returns
/// the new size.
pub(crate) fn trim(path: &Path) -> Result<u64, Error> {
    let mut file = tracetee_os::open_with(File::options().read(true).write(true), path)
        .map_err(Error::io("open", path))?;
    let kept = whole_frames(&mut file, u64::MAX).map_err(Error::io("read", path))?;
    file.set_len(kept).map_err(Error::io("truncate", path))?;
    Ok(kept)
}

/// True if the file begins with a complete frame.
pub(crate) fn has_a_frame(path: &Path) -> Result<bool, Error> {
    let mut file = tracetee_os::open(path).map_err(Error::io("open", path))?;
    let first = whole_frames(&mut file, FRAME_BYTES as u64).map_err(Error::io("read", path))?;
    Ok(first > 0)
}

/// Returns the end of the last complete frame that ends within `most` bytes; 0 if there is none.
fn whole_frames(file: &mut File, most: u64) -> std::io::Result<u64> {
    let mut buffer = Vec::new();
    let mut end = 0;
    loop {
        file.seek(SeekFrom::Start(end))?;
        buffer.clear();
        Read::by_ref(file).take(FRAME_BYTES as u64).read_to_end(&mut buffer)?;
        match frame_bytes(&buffer) {
            Some(bytes) if end + bytes as u64 <= most => end += bytes as u64,
            _ => return Ok(end),
        }
    }
}

/// Reads the metadata in the capture's first frame; `None` if there is none.
pub(crate) fn about(path: &Path) -> Option<CaptureMeta> {
    let mut head = Vec::new();
    tracetee_os::open(path).ok()?.take(FRAME_BYTES as u64).read_to_end(&mut head).ok()?;
    let text = stored_text(&head)?;
    let text = String::from_utf8_lossy(&text);
    let mut comments = text.lines().take_while(|line| line.starts_with('#'));
    let json =
        comments.find_map(|line| line.strip_prefix(COMMENT).filter(|text| text.starts_with('{')));
    CaptureMeta::from_json(json?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame as the agent makes them, with a checksum.
    fn frame(text: &str) -> Vec<u8> {
        let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
        compressor.include_checksum(true).unwrap();
        compressor.compress(text.as_bytes()).unwrap()
    }

    /// A file of frames, and where each ends.
    fn file(frames: &[&str]) -> (tempfile::NamedTempFile, Vec<u64>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut ends = Vec::new();
        for text in frames {
            file.write_all(&frame(text)).unwrap();
            ends.push(file.as_file().metadata().unwrap().len());
        }
        (file, ends)
    }

    fn text(path: &Path) -> String {
        if path.metadata().unwrap().len() == 0 {
            return String::new();
        }
        let text = zstd::stream::decode_all(File::open(path).unwrap()).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Text that does not compress.
    fn noise(seed: u64, lines: u64) -> String {
        let hash = |line| seed.wrapping_add(line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..lines).map(|line| format!("{:x}\n", hash(line))).collect()
    }

    #[test]
    fn a_capture_that_is_too_large_is_cut_at_a_frame_and_says_so() {
        let frames = [noise(1, 200), noise(2, 200), noise(3, 200)];
        let (file, ends) = file(&frames.each_ref().map(String::as_str));
        assert_eq!(cut(file.path(), ends[2]).unwrap(), None);
        let most = ends[1] + CUT_LINE_BYTES;
        assert_eq!(cut(file.path(), most).unwrap(), Some(ends[2]));
        assert!(file.as_file().metadata().unwrap().len() <= most);
        let line = format!("# tracetee: cut here: {} of {} bytes are kept\n", ends[1], ends[2]);
        assert_eq!(text(file.path()), frames[0].clone() + &frames[1] + &line);
        let nothing = cut(file.path(), 10).unwrap_err().to_string();
        assert_eq!(nothing, "not kept: size");
    }

    #[test]
    fn only_a_file_that_begins_with_a_whole_frame_has_one() {
        let (file, ends) = file(&[&noise(1, 100), &noise(2, 100)]);
        assert!(has_a_frame(file.path()).unwrap());
        file.as_file().set_len(ends[0] - 1).unwrap();
        assert!(!has_a_frame(file.path()).unwrap());
        file.as_file().set_len(0).unwrap();
        assert!(!has_a_frame(file.path()).unwrap());
    }

    #[test]
    fn metadata_is_found_in_the_stored_header_only() {
        let head = "# tracer: nop\n# tracetee: {\"window\":\"jank\",\"seq\":3}\n";
        let stored = |text: &str| {
            let mut frame = Vec::new();
            store(text.as_bytes(), &mut frame);
            frame
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let about_of = |bytes: &[u8]| {
            std::fs::write(file.path(), bytes).unwrap();
            about(file.path())
        };
        let good = [stored(&format!("{head} a-1 line\n")), frame("more\n")].concat();
        assert_eq!(about_of(&good).unwrap().window.as_deref(), Some("jank"));
        let late = "# tracer: nop\n a-1 line\n# tracetee: {\"window\":\"x\"}\n";
        for other in [stored(late), frame(head), b"no frame".to_vec()] {
            assert_eq!(about_of(&other), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn wherever_a_file_ends_its_whole_frames_stay(sizes in proptest::collection::vec(1..300u64, 1..6), at in 0..10_000u64) {
            let frames: Vec<String> = sizes.iter().map(|&lines| noise(lines, lines)).collect();
            let texts: Vec<&str> = frames.iter().map(String::as_str).collect();
            let (file, ends) = file(&texts);
            let len = at % (ends.last().unwrap() + 1);
            file.as_file().set_len(len).unwrap();
            let whole = ends.iter().filter(|&&end| end <= len).count();
            let kept = trim(file.path()).unwrap();
            prop_assert_eq!(kept, whole.checked_sub(1).map_or(0, |last| ends[last]));
            prop_assert_eq!(text(file.path()), texts[..whole].concat());
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let file = tempfile::NamedTempFile::new().unwrap();
            for head in [&[][..], &[0x28, 0xb5, 0x2f, 0xfd]] {
                std::fs::write(file.path(), [head, &bytes].concat()).unwrap();
                let _ = about(file.path());
                prop_assert!(trim(file.path()).unwrap() <= bytes.len() as u64 + 4);
            }
        }
    }
}

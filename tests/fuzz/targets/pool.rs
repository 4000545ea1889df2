//! A recorder file of any bytes behind a valid start: reading it never panics nor runs away.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Write;
use tracetee_recorder::reader::PoolFile;
use tracetee_text::{TextOptions, summarize, write_trace};

fuzz_target!(|bytes: &[u8]| {
    let directory = std::path::Path::new("/dev/shm");
    let Ok(mut file) = tempfile::NamedTempFile::new_in(directory) else { return };
    // Magic, version 2 and blocks of 4 KiB: without them nothing behind is looked at. The rest of
    // the header comes from the input's first bytes, the blocks from the others.
    let mut pool = b"TTPOOL\0\x01\x02\0\0\0\0\x10\0\0".to_vec();
    let (head, blocks) = bytes.split_at(bytes.len().min(64));
    pool.extend_from_slice(head);
    pool.resize(278_528, 0);
    pool.extend_from_slice(blocks);
    pool.resize(pool.len().next_multiple_of(4096), 0);
    if file.write_all(&pool).is_err() {
        return;
    }
    if let Ok(pool) = PoolFile::open(file.path()) {
        let reader = pool.reader();
        let counted = summarize(&[reader], &TextOptions::default());
        let _ = reader.meta();
        let output = file.path().with_extension("ftrace");
        let written = write_trace(&[reader], &TextOptions::default(), &output);
        assert_eq!(written.map(|summary| summary.recorded()).ok(), Some(counted.recorded()));
        let _ = std::fs::remove_file(output);
    }
});

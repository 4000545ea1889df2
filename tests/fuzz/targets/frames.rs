//! A text becomes a frame that both decoders give back; a damaged frame, ours or zstd's of any level, is refused or
//! decoded as zstd decodes it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee_frames::{Compressor, decompress, frame_bytes};

fn like_zstd(frame: &[u8]) {
    let _ = frame_bytes(frame);
    // zstd minds the size of a window too, and takes larger texts.
    if let (Ok(ours), Ok(theirs)) = (decompress(frame), zstd::stream::decode_all(frame)) {
        assert_eq!(ours, theirs);
    }
}

fuzz_target!(|input: (u16, u8, i8, &[u8])| {
    let (place, change, level, bytes) = input;
    // As they are.
    like_zstd(bytes);
    // Parts that repeat: matches of several distances.
    let text = [bytes, bytes.get(bytes.len() / 3..).unwrap_or_default(), b"|", bytes].concat();
    let mut frame = Vec::new();
    Compressor::new().compress(&text, &mut frame);
    assert_eq!(frame_bytes(&frame), Some(frame.len()));
    assert_eq!(decompress(&frame).unwrap(), text);
    assert_eq!(zstd::stream::decode_all(frame.as_slice()).unwrap(), text);
    let theirs = zstd::bulk::compress(&text, i32::from(level % 20)).unwrap();
    assert_eq!(decompress(&theirs).unwrap(), text);
    for mut damaged in [frame, theirs] {
        let bytes = damaged.len();
        damaged[usize::from(place) % bytes] ^= change;
        like_zstd(&damaged);
    }
});

//! Panics on demand, for the tests of the guard. Only with the feature `planted-panics`, which no shipped library has.

/// Panics if the directory that `TRACETEE_PANICS` names has a file called `file`: after the number of milliseconds in the
/// file.
#[cfg(feature = "planted-panics")]
pub fn planted(file: &str) {
    let Some(directory) = std::env::var_os("TRACETEE_PANICS") else { return };
    let path = std::path::Path::new(&directory).join(file);
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let pause_ms = text.trim().parse().unwrap_or(0);
    std::thread::sleep(std::time::Duration::from_millis(pause_ms));
    panic!("planted: {file}");
}

/// Does nothing without the feature `planted-panics`.
#[cfg(not(feature = "planted-panics"))]
#[inline(always)]
pub const fn planted(_place: &str) {}

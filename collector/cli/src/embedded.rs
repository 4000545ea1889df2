//! Parts embedded in a release of the program, built by `build.rs`; a debug build looks for the agent's
//! library beside itself and has no sample app.

use anyhow::Result;
#[cfg(not(embedded))]
use anyhow::bail;
use std::borrow::Cow;
use tracetee_demo::SampleApp;

/// Bytes of the agent's library.
#[cfg(embedded)]
pub(crate) fn library() -> Result<Cow<'static, [u8]>> {
    const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtracetee.so"));
    Ok(Cow::Borrowed(LIBRARY))
}

/// The sample app.
#[cfg(embedded)]
pub(crate) fn sample_app() -> Result<SampleApp> {
    Ok(SampleApp {
        program: include_bytes!(concat!(env!("OUT_DIR"), "/sample-app")),
        libcutils: include_bytes!(concat!(env!("OUT_DIR"), "/libcutils.so")),
    })
}

/// Bytes of the agent's library beside the program.
#[cfg(not(embedded))]
pub(crate) fn library() -> Result<Cow<'static, [u8]>> {
    let path = std::env::current_exe()?.with_file_name("libtracetee.so");
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Cow::Owned(bytes)),
        Err(error) => bail!(
            "cannot read {}: {error}; a debug build does not embed the agent. Build it with `cargo build --package \
             tracetee-agent --features https`, or use a release build",
            path.display()
        ),
    }
}

/// The sample app.
#[cfg(not(embedded))]
pub(crate) fn sample_app() -> Result<SampleApp> {
    let message = "a debug build does not embed the sample app";
    Err(crate::terminal::hinted(message, "run `cargo run --release -- demo`"))
}

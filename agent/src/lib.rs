//! The agent inside the app: tees atrace records into a recorder, and writes them as ftrace text.
//!
//! The journey of a record. A library writes `B|pid|name` to the trace marker; its call of
//! `write` comes to [`hooks`](self), which recognises it ([`record`], `libcutils`) and gives
//! it to the [`recorder`], where it lies in its thread's block with the time ([`clock`]). The
//! write goes on to the kernel or is spared. A dump merges all threads by time, repairs what is
//! unbalanced and writes [`text`], compressed. `capture` starts and stops all that: it finds
//! libcutils' variables, hooks `write` everywhere, and forces the [`libcutils::tags`] on.
//!
//! Above it, [`controller`] opens and closes captures by remote configuration and by what happens in
//! the app. `section` is for records of one's own, `task` for those of futures.
//!
//! Ways in: this Rust API, the C API (`include/tracetee.h`), and `LD_PRELOAD` with a
//! configuration file ([`ffi::preload`]). [`recover`] reads what a killed process left behind.

#[cfg(not(any(target_os = "linux", target_os = "android")))]
compile_error!("tracetee runs on Android and Linux");

mod android;
mod api;
mod capture;
mod config;
pub mod controller;
mod cost;
mod drain;
mod error;
pub mod ffi;
mod fork;
mod health;
mod hooks;
mod host;
pub mod libcutils;
mod own_threads;
pub mod recover;
mod section;
mod self_test;
mod task;
pub mod text;

pub use android::perfetto::PerfettoReport;
pub use api::{dump, install, start, stop};
pub use config::{ClockSetting, Config, PassOnSetting, RecorderConfig};
pub use controller::stats;
pub use controller::{Install, Report, TransportChoice, UploadTo};
pub use error::Error;
pub use health::{Health, Library, Stats};
pub use section::{
    Section, begin_async, begin_section, begin_track, counter, end_async, end_section, end_track,
    instant, is_recording,
};
pub use self_test::self_test;
pub use task::{TaskSection, TraceFuture, Traced, misuses, set_strict};
pub use tracetee_recorder::layout::Mode;

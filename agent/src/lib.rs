//! The agent inside the app: tees atrace records into a recorder, and writes them as ftrace text.
//!
//! The journey of a record. A library writes `B|pid|name` to the trace marker; its call of `write` reaches the proxy in
//! [`tracetee_tee`]. The proxy recognises the record and its descriptor, and stores it, with the time, in the block that its
//! thread has in [`tracetee_recorder`]. Then the write is passed to the kernel or suppressed. A dump merges all threads by
//! time, repairs what is unbalanced and writes text ([`tracetee_text`]), compressed.
//!
//! `capture` starts and stops that: it finds libcutils' variables, hooks `write` everywhere, and forces its `tags` on. Above
//! it, `controller` opens and closes captures by remote configuration and by events in the app. `section` has your own
//! instrumentation, `event` adds details, `task` traces futures, and `tracing_layer` receives spans of `tracing`. `recover`
//! reads the recorders of killed processes.
//!
//! The entry points are this Rust API (`api`), and in [`ffi`] the C API (`include/tracetee.h`), JNI and
//! `LD_PRELOAD` with a configuration file. Modules import downward only: `ffi`, `api`, `fork`,
//! `controller`, `capture`, `tags`, then the proxies, the recorder and the text (`tests/imports` fails
//! otherwise).

#[cfg(not(any(target_os = "linux", target_os = "android")))]
compile_error!("tracetee runs on Android and Linux");

mod after_panic;
mod android;
mod api;
mod capture;
mod config;
mod controller;
mod cost;
mod error;
mod event;
#[doc(hidden)]
pub mod ffi;
mod fork;
mod fork_lock;
mod health_report;
mod host;
mod listener;
mod own_threads;
mod queue;
mod recover;
mod section;
mod self_test;
mod streaming;
mod tags;
mod task;
#[cfg(feature = "tracing")]
mod tracing_layer;

pub use api::{dump, install, start, stop};
pub use controller::{
    Install, TransportChoice, UploadTo, check_config, close_window, health, low_memory,
    offer_config, open_window, set_consent, set_network, trigger, uninstall, upload,
};
pub use error::Error;
pub use event::{ArgValue, Event, EventSection, Flow, counters, now_ns};
pub use section::{
    Section, begin_async, begin_section, begin_track, counter, end_async, end_section, end_track,
    instant, is_recording,
};
pub use self_test::self_test;
pub use task::{TaskSection, TraceFuture, Traced, misuses, set_strict};
#[cfg(feature = "tracing")]
pub use tracing_layer::TracingLayer;

// Types of tracetee's other crates that occur in the signatures above. A consumer depends only on this crate;
// `tests/rust_api.rs` fails if a signature uses another type.
pub use tracetee_hooks::Error as HooksError;
pub use tracetee_protocol::capture_config::{
    ClockSetting, Config, Precision, RecorderConfig, TextOptions,
};
pub use tracetee_protocol::health::{
    Health, HealthReport, Library, PerfettoReport, TagGap, TagReport,
};
pub use tracetee_protocol::json::{Decimal, Error as ConfigError, Position};
pub use tracetee_protocol::record::RawJson;
pub use tracetee_protocol::recording::{MinSlice, Mode, PassOnSetting};
pub use tracetee_protocol::redaction::{Action, Replacement, Rule};
pub use tracetee_protocol::upload_status::{LastUpload, PassReport, UploadStatus};
pub use tracetee_protocol::{
    CaptureReport, ConfigReport, ControlReport, LateStartReport, LostReport, OverheadReport,
    SpentReport, Summary, ThreadSummary, WindowReport,
};
pub use tracetee_recorder::Error as RecorderError;
pub use tracetee_text::Error as TextError;
pub use tracetee_uploader::{
    Body, Error as UploadError, Failure, NetState, Network, Request, Response, Transport,
};

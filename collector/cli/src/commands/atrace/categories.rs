//! The categories of atrace, and those that an app can record.

use anyhow::{Result, bail};
use tracetee_trace::quoted;

/// Categories of user space: name and description, as in atrace.
const CATEGORIES: [(&str, &str); 27] = [
    ("gfx", "Graphics"),
    ("input", "Input"),
    ("view", "View System"),
    ("webview", "WebView"),
    ("wm", "Window Manager"),
    ("am", "Activity Manager"),
    ("sm", "Sync Manager"),
    ("audio", "Audio"),
    ("video", "Video"),
    ("camera", "Camera"),
    ("hal", "Hardware Modules"),
    ("app", "The app's own sections (atrace -a)"),
    ("res", "Resource Loading"),
    ("dalvik", "Dalvik VM"),
    ("rs", "RenderScript"),
    ("bionic", "Bionic C Library"),
    ("power", "Power Management"),
    ("pm", "Package Manager"),
    ("ss", "System Server"),
    ("database", "Database"),
    ("network", "Network"),
    ("adb", "ADB"),
    ("vibrator", "Vibrator"),
    ("aidl", "AIDL calls"),
    ("nnapi", "NNAPI"),
    ("rro", "Runtime Resource Overlay"),
    ("thermal", "Thermal event"),
];

/// Categories of the kernel.
const OF_THE_KERNEL: [&str; 21] = [
    "sched",
    "irq",
    "irqoff",
    "preemptoff",
    "i2c",
    "freq",
    "membus",
    "idle",
    "disk",
    "mmc",
    "load",
    "sync",
    "workq",
    "memreclaim",
    "regulators",
    "binder_driver",
    "binder_lock",
    "pagecache",
    "memory",
    "gfx_mali",
    "ion",
];

/// Lists the categories in the format of `atrace --list_categories`.
pub(super) fn list() -> String {
    CATEGORIES.iter().map(|(name, title)| format!("  {name:>10} - {title}\n")).collect()
}

/// Checks the requested categories; returns all if none was requested.
pub(super) fn checked(asked: &[String]) -> Result<Vec<String>> {
    for name in asked {
        if OF_THE_KERNEL.contains(&&**name) {
            bail!(
                "{name} is a category of the kernel, which an app cannot record; capture it with the system's \
                 own tracer and join both: tracetee convert OURS THEIRS -o joined.html"
            );
        }
        if name != "all" && !CATEGORIES.iter().any(|(known, _)| known == name) {
            bail!("unknown category {}; --list_categories lists them", quoted(name));
        }
    }
    Ok(if asked.is_empty() { vec!["all".to_owned()] } else { asked.to_vec() })
}

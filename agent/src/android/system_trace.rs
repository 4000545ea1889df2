//! The system's trace that has taken the app's tags, as far as an app can know it.
//!
//! An app sees the properties by which libcutils learns of a trace: its tags, and the apps whose sections it wants. Android
//! does not reveal which program started it (atrace, systrace, Perfetto's traced, a profiler), nor exactly when. Called
//! under the capture's lock.

use super::properties;
use tracetee_protocol::categories::CATEGORIES;
use tracetee_tee::tag_words::IDLE_TAGS;

/// Number of apps that are named, and bytes of the text.
const MAX_APPS: u32 = 8;
const MAX_BYTES: usize = 300;

/// Describes the trace that has set the tags to this word.
pub(crate) fn describe(tags: u64) -> String {
    let tags = tags & !IDLE_TAGS;
    if tags == 0 {
        return "a trace of the system has ended".to_owned();
    }
    let mut text = "a trace of the system with the tags".to_owned();
    for (bit, name) in (1..).zip(CATEGORIES) {
        if tags >> bit & 1 != 0 {
            text.push(' ');
            text.push_str(name);
        }
    }
    let mut apps = (0..MAX_APPS).map_while(|number| {
        let name = format!("debug.atrace.app_{number}\0");
        properties::get(std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).ok()?)
    });
    if let Some(first) = apps.next() {
        text.push_str(" and the apps ");
        text.push_str(&first);
        for app in apps {
            text.push_str(", ");
            text.push_str(&app);
        }
    }
    text.truncate(text.floor_char_boundary(MAX_BYTES));
    text
}

//! Texts that the agent writes into a trace in addition to the app's records, and by which readers recognize them.
//!
//! A comment has its own line. An instant is the agent's own record.

/// First line of an ftrace text.
pub const FIRST_LINE: &str = "# tracer: nop\n";
/// Header of an ftrace text that every viewer accepts; begins with [`FIRST_LINE`].
pub const HEADER: &str = "\
# tracer: nop
# TRACE:
# tracer: nop
#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION
";

/// Start of an instant of the agent and, after `# `, of a comment.
pub const PREFIX: &str = "tracetee: ";
/// Start of a comment of the agent. A JSON object that follows is capture metadata.
pub const COMMENT: &str = "# tracetee: ";

/// Start of the names of counters that the agent reads at the begin and the end of frames on the main thread, and on
/// the render thread. One of [`FRAME_COUNTERS`] follows.
pub const FRAME_MAIN: &str = "tracetee: main ";
/// The same on the render thread.
pub const FRAME_RENDER: &str = "tracetee: render ";
/// The counters of [`FRAME_MAIN`] and [`FRAME_RENDER`]: changes since the previous reading. The first is written each time,
/// the others if they differ from the previous value.
pub const FRAME_COUNTERS: [&str; 6] =
    ["running ns", "runnable ns", "page faults", "major page faults", "waits", "preemptions"];

/// Category of the instants with the platform's verdict about a frame, from the Android library.
pub const FRAME_CATEGORY: &str = "tracetee.frame";
/// Name of these instants.
pub const FRAME_VERDICT: &str = "frame verdict";

/// Category of the instant with the platform's data on the app's start, from the Android library.
pub const START_CATEGORY: &str = "tracetee.start";
/// Name of this instant.
pub const APP_START: &str = "app start";

/// Name of all screens beyond the limit of distinct names.
pub const OTHER: &str = "(other)";

/// Start of a comment with the details of the record on the next line, a JSON object.
pub const DETAILS: &str = "#@ ";

/// Name of the instant that has a sample of the main thread's callstack as details.
pub const STACK: &str = "tracetee: stack";
/// Name of the instant whose details name functions of the samples after it.
pub const STACK_NAMES: &str = "tracetee: stack names";

/// Name of the Kotlin library's thread that takes the samples.
pub const STACK_SAMPLER: &str = "tracetee-stacks";

/// Note in a trace whose process was killed before it stopped the capture: the name of an instant, and
/// the start of a comment.
pub const RECOVERED: &str = "recovered";
/// Name of the section of the agent's thread in which a trace of the system may have taken records from this one.
pub const TAGS_TAKEN: &str = "tracetee: tags taken";
/// Start of the instant at which a window was closed because recording cost too much.
pub const OVER_BUDGET: &str = "over budget";
/// Start of the instant, written when the agent's thread runs again, of a time in which the process stood still; the
/// milliseconds and " ms" follow.
pub const STOOD_STILL: &str = "stood still: ";
/// Start of the comment that ends a capture that was cut for its size.
pub const CUT_HERE: &str = "cut here: ";

/// The note that the agent left as an instant of this name; `None` for an instant of the app.
#[must_use]
pub fn of_instant(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)
}

//! The five tables: what stands in which column. The same in every engine.
//!
//! Each row carries what reports group by (app, version, day, device, cohort), so that a query over
//! frames needs no join. In Parquet that costs next to nothing (dictionaries); SQLite keeps it once for a
//! capture ([`Source::Capture`]) and joins by number.

/// The version of the tables. One more when a column changes; older ones are rebuilt.
pub const VERSION: i64 = 1;

/// What a column holds. Booleans are 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// 64 bits.
    Int,
    /// 64 bits.
    Real,
}

/// Where a column's value is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The table's own.
    Own,
    /// That of its capture.
    Capture,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may be empty.
    pub nullable: bool,
    /// Whose it is.
    pub source: Source,
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns, in their order.
    pub columns: &'static [Column],
}

const fn own(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: false, source: Source::Own }
}

const fn maybe(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true, source: Source::Own }
}

const fn of_capture(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: false, source: Source::Capture }
}

use Kind::{Int, Real, Text};

/// One row a capture.
pub const CAPTURES: Table = Table {
    name: "captures",
    columns: &[
        own("app", Text),
        // UTC, YYYY-MM-DD, of the capture's id.
        own("dt", Text),
        // The version's name, its code where it has none.
        own("ver", Text),
        own("capture_id", Text),
        // The file of the table that the row came in; in SQLite always empty.
        own("part", Text),
        own("device", Text),
        // What made it be captured: time, start, section, manual, trigger.
        own("cohort", Text),
        // Whether it counts for rates: by time, whole, and recording cost no more than is allowed.
        own("counted", Int),
        maybe("version_code", Int),
        own("window_id", Text),
        own("why", Text),
        maybe("model", Text),
        maybe("api", Int),
        own("made_ms", Int),
        own("span_ns", Int),
        own("period_ns", Int),
        own("period_source", Text),
        own("frames", Int),
        own("slow", Int),
        own("janky", Int),
        own("frozen", Int),
        own("dropped_vsyncs", Int),
        own("jank_ns", Int),
        own("frame_ns", Int),
        maybe("startup_ns", Int),
        own("anrs", Int),
        own("slow_session_20fps", Int),
        own("slow_session_30fps", Int),
        maybe("overhead_percent", Real),
        own("over_budget", Int),
        own("recovered", Int),
        own("lost_records", Int),
        own("bytes", Int),
        own("raw_key", Text),
    ],
};

/// One row a frame.
pub const FRAMES: Table = Table {
    name: "frames",
    columns: &[
        of_capture("app", Text),
        of_capture("dt", Text),
        of_capture("ver", Text),
        of_capture("capture_id", Text),
        of_capture("part", Text),
        of_capture("device", Text),
        of_capture("counted", Int),
        own("frame", Int),
        maybe("vsync_id", Int),
        own("screen", Text),
        own("start_ns", Int),
        own("ui_ns", Int),
        maybe("render_ns", Int),
        own("dur_ns", Int),
        // Rounded up: percentiles over a fleet count these.
        own("dur_100us", Int),
        own("dropped_vsyncs", Int),
        own("level", Text),
        own("slow", Int),
        own("janky", Int),
        own("frozen", Int),
        own("jank_ns", Int),
        // Of a janky frame; else empty.
        own("cause", Text),
        own("cause_key", Text),
    ],
};

/// Where the time of janky frames went: one row a frame, thread, cause and name.
pub const FRAME_SLICES: Table = Table {
    name: "frame_slices",
    columns: &[
        of_capture("app", Text),
        of_capture("dt", Text),
        of_capture("ver", Text),
        of_capture("capture_id", Text),
        of_capture("part", Text),
        of_capture("device", Text),
        of_capture("counted", Int),
        own("frame", Int),
        // How long the frame took.
        own("frame_ns", Int),
        own("screen", Text),
        own("thread", Text),
        own("cause", Text),
        own("cause_key", Text),
        own("name", Text),
        own("self_ns", Int),
        own("slices", Int),
        // Who held the lock.
        own("owner", Text),
    ],
};

/// The same by stack: one row a capture, screen and stack.
pub const STACKS: Table = Table {
    name: "stacks",
    columns: &[
        of_capture("app", Text),
        of_capture("dt", Text),
        of_capture("ver", Text),
        of_capture("capture_id", Text),
        of_capture("part", Text),
        of_capture("device", Text),
        own("screen", Text),
        own("stack", Text),
        own("self_ns", Int),
        own("slices", Int),
    ],
};

/// Captures that devices say they lost: one row a capture, or a number of them.
pub const LOSSES: Table = Table {
    name: "losses",
    columns: &[
        own("app", Text),
        own("dt", Text),
        own("part", Text),
        own("report_id", Text),
        own("device", Text),
        own("capture_id", Text),
        own("window_id", Text),
        own("reason", Text),
        own("unconfirmed", Int),
        own("captures", Int),
    ],
};

/// All of them.
pub const TABLES: [Table; 5] = [CAPTURES, FRAMES, FRAME_SLICES, STACKS, LOSSES];

impl Table {
    /// The place of a column.
    #[must_use]
    pub fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|of| of.name == column)
    }
}

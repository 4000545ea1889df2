//! Windows on demand: the document allows them, and the collector requests them.
//!
//! The collector cannot sign, so the signed document contains the whole window with its sampling; the request
//! ([`crate::http::ASKS`]) names the window, and can only reduce its share.

use super::limits::*;
use super::{Document, Window};
use crate::json::{Decimal, Error, Limits};
use crate::record;

record! {
    /// A window that the collector may ask for while a cause grows, and the limits of that.
    pub struct OnDemand {
        /// Causes for which the collector may request it, as in its reports; `jank` for all jank, `death` for process ends.
        /// Without any: all causes.
        pub causes: Vec<String> = Vec::new(); count(0..=MAX_WINDOWS),
        /// The collector requests the window until this many devices have sent a capture.
        pub devices: u32 = 10; within(1..=1000),
        /// Seconds for which the collector makes one request, and a device obeys it.
        pub for_s: u64 = 3 * 24 * 3600; within(60..=MAX_PERIOD_S),
        /// The window. Its `sampling` limits the devices that may be asked.
        pub window: Window = Window::default(); required(),
    }

    /// The requests of a collector to the devices of an app.
    #[derive(Eq)]
    pub struct Asks {
        /// The requests.
        pub asks: Vec<Ask> = Vec::new(); count(0..=MAX_WINDOWS),
    }

    /// A request for a window.
    #[derive(Eq)]
    pub struct Ask {
        /// The id of the request, which chooses the devices.
        pub id: String = String::new(); required(); check(is_id),
        /// The id of a window in `on_demand` of the document.
        pub window: String = String::new(); required(); check(is_id),
        /// The share of the window's devices that get the request.
        pub percent: Decimal = Decimal::ZERO; required(); within(PERCENT),
        /// The app's version codes that get the request: the first and the last one.
        pub version_code: Option<(u64, u64)> = None,
        /// Unix time in ms at which the request arrived. Set by the device.
        pub since_ms: u64 = 0,
    }
}

impl Asks {
    /// Reads requests. A text with any error is rejected as a whole.
    ///
    /// # Errors
    /// [`Error`] with the first invalid field.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        // It is a header.
        let asks: Self = record::parse(json, Limits { bytes: 16 * 1024, ..Limits::DEFAULT })?;
        record::check(&asks)?;
        Ok(asks)
    }
}

impl Document {
    /// Returns the part of the request that the document allows: the window, for the versions of both.
    #[must_use]
    pub fn allowed(&self, ask: &Ask) -> Option<(&OnDemand, Window)> {
        let allowed = self.on_demand.iter().find(|allowed| allowed.window.id == ask.window)?;
        let mut window = allowed.window.clone();
        let codes = &mut window.matches.version_code;
        *codes = match (*codes, ask.version_code) {
            (Some((from, to)), Some((first, last))) => Some((from.max(first), to.min(last))),
            (own, asked) => own.or(asked),
        };
        Some((allowed, window))
    }
}

//! State of uploads: a part of the health report, and the result of one upload pass.

use crate::json::{Decimal, Writer};
use crate::record;
use std::collections::BTreeMap;

record! {
    /// Waiting and lost captures, and the reason why nothing is sent.
    #[derive(Eq)]
    pub struct UploadStatus {
        /// Address that captures go to.
        pub url: String = String::new(),
        /// False after the user has withdrawn consent.
        pub consent: bool = false,
        /// Captures that wait.
        pub waiting: u64 = 0,
        /// Bytes of the captures that wait.
        pub waiting_bytes: u64 = 0,
        /// Captures of this process that the server has.
        pub delivered: u64 = 0,
        /// Captures that were lost and are in no report yet, by reason.
        pub lost: BTreeMap<String, u64> = BTreeMap::new(),
        /// Reason why the last pass ended before everything was sent.
        pub held: Option<String> = None,
        /// Failures in a row.
        pub failures: u32 = 0,
        /// Time left to wait after those failures, seconds.
        pub wait_s: u64 = 0,
        /// Bytes sent in the present 24 hours over unmetered networks.
        pub bytes_in_day: u64 = 0,
        /// Bytes sent in the present 24 hours over metered networks.
        pub metered_bytes_in_day: u64 = 0,
        /// The last upload of this process.
        pub last: Option<LastUpload> = None,
        /// The last thing that went wrong in the spool.
        pub trouble: Option<String> = None,
    }

    /// One upload.
    #[derive(Eq)]
    pub struct LastUpload {
        /// Id of the capture.
        pub id: String = String::new(),
        /// Id of the window.
        pub window: String = String::new(),
        /// Bytes of the capture.
        pub bytes: u64 = 0,
        /// Unix time of the upload, ms.
        pub at_ms: u64 = 0,
        /// Human-readable result.
        pub outcome: String = String::new(),
    }

    /// Result of `tracetee_upload`: one pass of the uploader.
    pub struct PassReport {
        /// Ids of the captures that the server has now.
        pub delivered: Vec<String> = Vec::new(),
        /// Reason why the pass ended before everything was sent.
        pub held: Option<String> = None,
        /// Seconds from now after which the next pass makes sense.
        pub again_s: Decimal = Decimal::ZERO,
        /// State after the pass.
        pub status: UploadStatus = UploadStatus::default(),
    }
}

record::writes!(PassReport);

impl PassReport {
    /// Writes why no pass was made.
    #[must_use]
    pub fn refuse(why: &str) -> String {
        let mut out = Writer::new();
        out.begin_object().key("error").text(why).end_object();
        out.finish()
    }
}

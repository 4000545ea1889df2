//! Fetches the configuration when it is due, and hands it on unchanged.
//!
//! A step of a pass. The agent checks the signature and decides whether to apply the configuration.

use crate::network::{NetState, Network};
use crate::policy::{self, Outcome};
use crate::timestamp::Now;
use crate::transport::Failure;
use crate::uploader::{Pass, PassContext, StopReason, Uploader};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tracetee_protocol::http;

/// Time within which the agent accepts or refuses a configuration.
const DECIDED: Duration = Duration::from_secs(1);

/// A configuration, as received from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The exact bytes of the document.
    pub bytes: Vec<u8>,
    /// The value of [`http::SIGNATURE`], unchanged; empty if there is none.
    pub signature: Vec<u8>,
}

impl Uploader {
    pub(crate) fn fetch_config(
        &mut self,
        context: &mut PassContext<'_>,
        pass: &mut Pass,
    ) -> Result<(), StopReason> {
        let Some(poll) = context.conditions.poll else { return Ok(()) };
        let now = (context.clock)();
        let NetState { network, roaming, .. } = context.conditions.net;
        // Battery and cost do not count: it is a few hundred bytes, and brings the kill switch.
        if !self.state.is_config_due(poll, now) || network == Network::None || roaming {
            return Ok(());
        }
        // The process may die before the answer.
        self.state.set_asked(policy::POLL_AGAIN, now);
        let etag = self.etag_of(context.conditions.config_digest);
        let request = self.endpoint.config(etag.as_deref(), context.stop);
        let response = match context.transport.send(&request) {
            Ok(response) => response,
            Err(Failure::Unreachable(why) | Failure::Broken(why)) => {
                return Err(self.config_failed(None, why, (context.clock)()));
            }
        };
        self.state.set_asked(poll, now);
        if matches!(response.status, 200 | 304) {
            pass.asks = Some(response.header(http::ASKS).unwrap_or_default().to_owned());
        }
        match response.status {
            200 => {
                let digest = hmac_sha256::Hash::hash(&response.body);
                if let Some(etag) = response.header(http::ETAG) {
                    self.keep_etag(&digest, etag);
                }
                if context.conditions.config_digest == Some(digest) {
                    return Ok(());
                }
                let signature = response.header(http::SIGNATURE).unwrap_or_default();
                let signature = signature.as_bytes().to_vec();
                pass.config = Some(Config { bytes: response.body, signature });
                pass.again = DECIDED;
                // It may be the kill switch: nothing is sent before that is known.
                Err(StopReason("a newer configuration arrived and decides first".to_owned()))
            }
            // There is no newer configuration, or none at all.
            304 | 404 | 410 => Ok(()),
            _ => match policy::classify(&response) {
                Outcome::Retry { after, why, .. } => {
                    Err(self.config_failed(after, why, (context.clock)()))
                }
                Outcome::Delivered | Outcome::Discard(_) => Ok(()),
            },
        }
    }

    /// Counts a failure. The next pass makes no request for the configuration, so that captures are sent if only the
    /// configuration fails.
    fn config_failed(&mut self, after: Option<Duration>, why: String, now: Now) -> StopReason {
        let reason = self.failed(after, why, now);
        let wait = Duration::from_millis(self.state.wait().left_ms(now));
        self.state.set_asked((2 * wait).max(policy::POLL_AGAIN), now);
        reason
    }

    fn etag_file(&self) -> PathBuf {
        self.spool.root().join("state").join("etag")
    }

    /// Returns the ETag of the configuration in force, if the server sent it last.
    fn etag_of(&self, digest: Option<[u8; 32]>) -> Option<String> {
        let text = fs::read_to_string(self.etag_file()).ok()?;
        let (owner, etag) = text.split_once('\n')?;
        let is_clean = etag.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        (owner == hex::encode(digest?) && is_clean).then(|| etag.to_owned())
    }

    fn keep_etag(&self, digest: &[u8; 32], etag: &str) {
        // A cache: torn, it fits no digest.
        let _ = tracetee_os::write(self.etag_file(), format!("{}\n{etag}", hex::encode(digest)));
    }
}

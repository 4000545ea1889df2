//! Sends the loss report: the last step of a pass.

use crate::policy::{self, Outcome};
use crate::uploader::verdict::{Verdict, judge};
use crate::uploader::{PassContext, StopReason, Uploader};

impl Uploader {
    /// Sends the loss report: last, so that a server that refuses reports still gets the captures.
    pub(crate) fn report_losses(
        &mut self,
        context: &mut PassContext<'_>,
    ) -> Result<(), StopReason> {
        let now = (context.clock)();
        if let Some(why) = policy::device_refuses(&context.conditions.net) {
            return Err(StopReason(why.to_owned()));
        }
        let lock = self.spool.lock();
        let report = self.spool.losses().report(now);
        drop(lock);
        let Some(report) = report else { return Ok(()) };
        let id = report.id.to_string();
        let mut content = report.content;
        content.device = self.device.clone();
        let content = content.to_json().into_bytes();
        let request = self.endpoint.losses(&id, &content, context.stop);
        let answer = context.transport.send(&request);
        let now = (context.clock)();
        match judge(answer).1 {
            Verdict::Answer(Outcome::Delivered) => {
                self.spool.losses().reported(&report.losses);
                self.state.clear_wait();
                Ok(())
            }
            // It is sent in the next pass. A server that refuses it must not get requests all the time.
            Verdict::Answer(Outcome::Discard(why)) => Err(self.failed(None, why, now)),
            Verdict::Answer(Outcome::Retry { after, why, .. }) => Err(self.failed(after, why, now)),
            Verdict::Unreachable(why) | Verdict::Broken(why) => Err(self.failed(None, why, now)),
        }
    }
}

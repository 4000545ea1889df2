//! Sends closed parts of the ledger: a step of a pass, before the captures, which wait for better networks.
//!
//! A server that refuses parts still gets the captures: its answer does not end the pass, and the parts wait for an hour.

use crate::network::Network;
use crate::policy::{self, Allowed, Outcome, POLL, Spent};
use crate::spool::Spool;
use crate::uploader::verdict::{Verdict, judge};
use crate::uploader::{PassContext, StopReason, Uploader};
use std::fs;
use std::sync::atomic::Ordering;
use tracetee_frames::Compressor;

/// The name of the state value with the time of the last answer without delivery.
const ASKED: &str = "parts";

impl Uploader {
    /// Sends parts like loss reports, over any network: they have a kilobyte.
    pub(crate) fn send_parts(&mut self, context: &mut PassContext<'_>) -> Result<(), StopReason> {
        let (conditions, now) = (context.conditions, (context.clock)());
        if conditions.rules.network == Allowed::Never
            || policy::device_refuses(&conditions.net).is_some()
            || !self.state.is_due(ASKED, POLL, now)
        {
            return Ok(());
        }
        for (id, path) in self.spool.parts() {
            // ORDERING: Relaxed; a wish, nothing is published with it.
            if context.stop.load(Ordering::Relaxed) || self.spool.is_off() {
                return Err(StopReason("a stop was requested".to_owned()));
            }
            let mut frame = Vec::new();
            let part = Spool::read_part(&path);
            let compress = |part: Vec<u8>| Compressor::new()?.compress(&part, &mut frame);
            if part.map(compress).and_then(Result::ok).is_none() {
                self.spool.lose_part(id, &path, "damaged");
                continue;
            }
            let bytes = frame.len() as u64;
            let spent = match conditions.net.network {
                Network::Metered => Spent { metered: bytes, unmetered: 0 },
                Network::Unmetered | Network::None => Spent { unmetered: bytes, metered: 0 },
            };
            self.state.spend(spent, now)?;
            let request = self.endpoint.part(&id.to_string(), &frame, &self.device, context.stop);
            let answer = context.transport.send(&request);
            let now = (context.clock)();
            // For captures this status means that the same one is stored; here another part has the same number.
            let is_conflict = answer.as_ref().is_ok_and(|response| response.status == 409);
            match judge(answer).1 {
                Verdict::Answer(Outcome::Delivered) if is_conflict => {
                    self.spool.lose_part(id, &path, "status_409");
                }
                Verdict::Answer(Outcome::Delivered) => {
                    // If it is not deleted, it is sent again, and the server knows it.
                    let _ = fs::remove_file(&path);
                    self.state.clear_wait();
                }
                Verdict::Answer(Outcome::Discard(reason)) => {
                    self.spool.lose_part(id, &path, &reason);
                }
                Verdict::Answer(Outcome::Retry { after, .. }) => {
                    self.state.set_due(ASKED, after.unwrap_or(POLL), now);
                    return Ok(());
                }
                Verdict::Unreachable(why) | Verdict::Broken(why) => {
                    return Err(self.failed(None, why, now));
                }
            }
        }
        Ok(())
    }
}

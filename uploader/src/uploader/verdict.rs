//! The meaning of an answer for the object that was sent.

use crate::policy::{self, Outcome};
use crate::transport::{Failure, Response};

/// The meaning of a server's answer, or of its absence.
pub(super) enum Verdict {
    /// The server has answered.
    Answer(Outcome),
    /// Nothing was sent, for this reason.
    Unreachable(String),
    /// Aborted, for this reason; the server may have the body.
    Broken(String),
}

/// Returns the meaning of an answer, with its text.
pub(super) fn judge(answer: Result<Response, Failure>) -> (String, Verdict) {
    match answer {
        Ok(response) => {
            let outcome = policy::classify(&response);
            let said = match &outcome {
                Outcome::Delivered => format!("delivered ({})", response.status),
                Outcome::Retry { why, .. } => why.clone(),
                Outcome::Discard(_) => format!("refused for good ({})", response.status),
            };
            (said, Verdict::Answer(outcome))
        }
        Err(Failure::Unreachable(why)) => (why.clone(), Verdict::Unreachable(why)),
        Err(Failure::Broken(why)) => (why.clone(), Verdict::Broken(why)),
    }
}

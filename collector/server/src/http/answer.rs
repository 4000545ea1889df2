//! Answers: a status and its reason, human-readable who read logs; and reading a refused body to its end.

use super::headers::text;
use super::ingest::{self, Refused};
use super::{Collector, add};
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::time::Duration;
use tokio::time::sleep;
use tracetee_protocol::http;

/// A status, and its reason.
pub(super) type Answer = (StatusCode, String);

/// Seconds after which a deferred client may retry.
const RETRY_AFTER_S: &str = "30";
/// Pause before the answer to a client that sends too much. If the client ignores the answer, each of its connections
/// takes one request's time from the others in this interval.
const TOO_MUCH_PAUSE: Duration = Duration::from_secs(2);
/// The answer to a client that sends a stored object again.
pub(super) const STORED: &str = "already stored";

pub(super) fn answer(status: StatusCode, why: &str) -> Answer {
    (status, format!("{why}\n"))
}

/// Answers an upload. A refused one is answered after its body, because many clients read no answer before.
pub(super) async fn answer_upload(
    outcome: Result<Answer, Answer>,
    headers: &HeaderMap,
    body: &mut Body,
) -> Response {
    match outcome {
        Ok(answer) => answer.into_response(),
        // Draining a body that is too slow would be too slow as well.
        Err(slow @ (StatusCode::REQUEST_TIMEOUT, _)) => slow.into_response(),
        Err(answer) => after_body(headers, body, answer).await,
    }
}

/// Answers a request whose body may not have been read.
pub(super) async fn after_body(headers: &HeaderMap, body: &mut Body, answer: Answer) -> Response {
    if answer.0 == StatusCode::TOO_MANY_REQUESTS {
        sleep(TOO_MUCH_PAUSE).await;
    }
    // A client that sends `Expect` has not sent a body yet.
    let asks = text(headers, "expect").is_some_and(|one| one.eq_ignore_ascii_case("100-continue"));
    if !asks {
        let is_stranger = matches!(answer.0, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        ingest::drain(body, is_stranger).await;
    }
    with_retry(answer)
}

/// Adds the time after which a deferred client may retry.
pub(super) fn with_retry(answer: Answer) -> Response {
    match answer {
        busy @ (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, _) => {
            ([(header::RETRY_AFTER, RETRY_AFTER_S)], busy).into_response()
        }
        answer => answer.into_response(),
    }
}

impl Collector {
    /// Refuses an invalid request, and counts it.
    pub(super) fn refuse(&self, status: StatusCode, why: &str) -> Answer {
        add(&self.counts.refused, 1);
        answer(status, why)
    }

    /// Refuses a request because too much is in progress, and counts it.
    pub(super) fn busy(&self, why: &str) -> Answer {
        add(&self.counts.busy, 1);
        answer(StatusCode::TOO_MANY_REQUESTS, why)
    }

    /// Refuses a body because of an error found while it arrived, and counts it.
    pub(super) fn refuse_body(&self, refused: &Refused) -> Answer {
        match refused {
            Refused::Disk(error) => disk(error),
            Refused::Busy => self.busy(&refused.to_string()),
            _ => self.refuse(status_of(refused), &refused.to_string()),
        }
    }

    /// Returns the size that a body says it has, 0 if it says none; refuses one of more than `most` bytes.
    pub(super) fn said_bytes(&self, headers: &HeaderMap, most: u64) -> Result<u64, Answer> {
        let said = text(headers, http::CONTENT_LENGTH).and_then(|text| text.parse().ok());
        let said = said.unwrap_or(0);
        if said > most { Err(self.refuse_body(&Refused::TooLarge(most))) } else { Ok(said) }
    }
}

pub(super) const fn status_of(refused: &Refused) -> StatusCode {
    match refused {
        Refused::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Refused::Broken | Refused::Digest => StatusCode::BAD_REQUEST,
        Refused::TooSlow => StatusCode::REQUEST_TIMEOUT,
        Refused::NoCapture(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refused::Busy => StatusCode::TOO_MANY_REQUESTS,
        // An error of the server: the client keeps the capture.
        Refused::Disk(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

pub(super) fn disk(error: &std::io::Error) -> Answer {
    tracing::error!("cannot store an upload: {error}");
    answer(StatusCode::SERVICE_UNAVAILABLE, "cannot store it now; try again later")
}

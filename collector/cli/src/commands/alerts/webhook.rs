//! A message in the form of a webhook, and its way there.
//!
//! With a secret, the header `X-Tracetee-Signature` has `sha256=` and the HMAC-SHA256 of the body in hexadecimal digits, as GitHub's
//! `X-Hub-Signature-256` does.

use super::Message;
use super::file::{Form, GuardFile, Webhook};
use crate::http::{self, json_headers};
use anyhow::{Context, Result, anyhow, bail};
use hmac_sha256::HMAC;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use tracetee_fleet::selection::utc;
use tracetee_uploader::http::Http;

/// Time of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Characters of an answer that the log has.
const MAX_REASON_CHARS: usize = 300;
/// Alertmanager takes an alert for ended after five minutes if it has no end: this one has an end of its own.
const LONGEST_MS: i64 = 365 * 86_400_000;

/// Sends a message. An error says why the webhook has not accepted it.
pub(super) fn send(hook: &Webhook, file: &GuardFile, message: &Message) -> Result<()> {
    let body = match hook.form {
        Form::Alertmanager => alertmanager(message, file.page.as_deref()),
        Form::Slack => slack(message, file.page.as_deref()),
    };
    let body = body.to_string();
    let mut headers = json_headers(&body);
    if let Some(path) = &hook.secret_file {
        headers.push((
            "X-Tracetee-Signature".to_owned(),
            signature(secret(path)?.as_bytes(), body.as_bytes()),
        ));
    }
    if let Some(path) = &hook.bearer_file {
        headers.push(("Authorization".to_owned(), format!("Bearer {}", secret(path)?)));
    }
    let mut http = Http::new(file.ca_file.as_deref())?;
    let answer = http::send(&mut http, "POST", &hook.url, headers, body.as_bytes(), TIMEOUT)
        .map_err(|error| anyhow!("{error:?}"))?;
    if !(200..300).contains(&answer.status) {
        let reason = String::from_utf8_lossy(&answer.body);
        let reason: String = reason.trim().chars().take(MAX_REASON_CHARS).collect();
        bail!("{}: status {} {reason}", hook.url, answer.status);
    }
    Ok(())
}

fn secret(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path);
    Ok(text.with_context(|| format!("cannot read {}", path.display()))?.trim().to_owned())
}

pub(super) fn signature(secret: &[u8], body: &[u8]) -> String {
    format!("sha256={}", hex::encode(HMAC::mac(body, secret)))
}

/// Address of a capture that shows the finding, or of the page.
fn link(message: &Message, page: Option<&str>) -> Option<String> {
    let page = page?.trim_end_matches('/');
    Some(format!("{page}/{}", message.alert.example.as_deref().unwrap_or_default()))
}

/// A list of one alert, as `POST /api/v2/alerts` takes it.
pub(super) fn alertmanager(message: &Message, page: Option<&str>) -> Value {
    let alert = &message.alert;
    let ends_ms = message.ended_ms.unwrap_or(alert.since_ms.saturating_add(LONGEST_MS));
    let mut one = json!({
        "labels": {
            "alertname": "TraceteeRegression",
            "app": alert.app,
            "from": alert.from,
            "to": alert.to,
            "segment": alert.segment,
            "screen": alert.screen.as_deref().unwrap_or("(all)"),
            "cause": alert.cause,
            "key": alert.key,
        },
        "annotations": {"summary": format!("{} {} is worse than {}", alert.app, alert.to, alert.from), "description": alert.summary},
        "startsAt": utc(alert.since_ms),
        "endsAt": utc(ends_ms),
    });
    if let (Some(link), Some(fields)) = (link(message, page), one.as_object_mut()) {
        fields.insert("generatorURL".to_owned(), link.into());
    }
    json!([one])
}

/// A text for an incoming webhook of Slack.
pub(super) fn slack(message: &Message, page: Option<&str>) -> Value {
    let safe = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let alert = &message.alert;
    let [app, from, to, summary] =
        [&alert.app, &alert.from, &alert.to, &alert.summary].map(|text| safe(text));
    let mut text = match message.ended_ms {
        None => format!("{app}: {to} is worse than {from}\n{summary}"),
        Some(_) => format!("{app}: ended, {to} against {from}\n{summary}"),
    };
    if let Some(link) = link(message, page) {
        let _ = write!(text, "\n<{}>", safe(&link));
    }
    json!({"text": text})
}

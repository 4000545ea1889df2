//! Uploads by the app's HTTP client: `Native.upload` lends the uploader a `NativeSender`. Called on the app's threads.

use super::env::{Env, Thrown};
use super::{Refusal, caught, is_null};
use crate::controller;
use jni_sys::{jclass, jobject, jstring, jvalue};
use tracetee_protocol::json::{Limits, quoted};
use tracetee_protocol::record;
use tracetee_protocol::upload_status::PassReport;
use tracetee_uploader::{Body, Failure, NetState, Request, Response};

/// Returns the report of `tracetee_upload`; `{"error": why}` if nothing was tried.
pub(super) extern "system" fn upload(
    env: Env,
    _: jclass,
    net: jstring,
    sender: jobject,
) -> jstring {
    let passed = caught(|| {
        if sender.is_null() {
            return Err(is_null());
        }
        let net: Option<NetState> = env
            .text(net)
            .map(|json| record::parse(json.as_bytes(), Limits::DEFAULT))
            .transpose()?;
        // A long pass makes many requests: the local references of each end with it.
        let mut transport = |request: &Request<'_>| env.in_frame(|| hand(env, sender, request));
        Ok(controller::upload(net, &mut transport)?)
    });
    let report = match passed {
        Ok(report) => report.to_json(),
        Err(Refusal(why)) => PassReport::refuse(&why),
    };
    env.new_text(&report)
}

/// Calls `NativeSender.send`, which returns null if nothing was sent, else {status, headers, body}; an exception
/// means that the exchange broke.
fn hand(env: Env, sender: jobject, request: &Request<'_>) -> Result<Response, Failure> {
    let client = |what: String| format!("the app's HTTP client: {what}");
    let none = std::ptr::null_mut();
    let (path, body) = match request.body {
        Body::None => (none, none),
        Body::Bytes(bytes) => (none, env.new_bytes(bytes)),
        Body::File { path, .. } => (env.new_text(&path.to_string_lossy()), none),
    };
    let arguments = [
        jvalue { l: env.new_text(request.method) },
        jvalue { l: env.new_text(&request.url) },
        jvalue { l: env.new_text(&request.header_lines()) },
        jvalue { l: path },
        jvalue { l: body },
        jvalue { j: i64::try_from(request.timeout.as_millis()).unwrap_or(i64::MAX) },
        jvalue { j: i64::try_from(request.max_answer_bytes).unwrap_or(i64::MAX) },
    ];
    env.clear();
    let answer = match env.call(
        sender,
        c"send",
        c"(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;[BJJ)[Ljava/lang/Object;",
        &arguments,
    ) {
        Ok(answer) if answer.is_null() => {
            return Err(Failure::Unreachable(client("the server cannot be reached".to_owned())));
        }
        Ok(answer) => answer,
        Err(Thrown(why)) => return Err(Failure::Broken(client(why))),
    };
    let status = env.text(env.element(answer, 0)).unwrap_or_default();
    let headers = env.text(env.element(answer, 1)).unwrap_or_default();
    let body = env.bytes(env.element(answer, 2)).unwrap_or_default();
    if body.len() > request.max_answer_bytes {
        return Err(Failure::Broken(client("the answer is too large".to_owned())));
    }
    match status.parse() {
        Ok(status @ 100..=999) => Ok(Response::new(status, &headers, body)),
        _ => Err(Failure::Broken(client(format!("it gave {} as status", quoted(&status))))),
    }
}

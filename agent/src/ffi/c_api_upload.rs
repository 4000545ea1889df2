//! The C API's part for uploads: consent, the network's state, and the app's own HTTP client.
//!
//! Documented for its users in `include/tracetee.h`. It converts arguments and decides nothing.

use crate::controller;
use crate::ffi::c_api::{ERROR_ARGUMENT, bytes, fail, give_text, guarded, text};
use std::ffi::{CString, c_char, c_int, c_void};
use tracetee_os::guard;
use tracetee_protocol::json::Limits;
use tracetee_protocol::record;
use tracetee_uploader::{Body, Failure, NetState, Request, Response};

/// One request to the app's HTTP client. See `tracetee.h`.
#[derive(Debug)]
#[repr(C)]
pub struct CRequest {
    method: *const c_char,
    url: *const c_char,
    headers: *const c_char,
    body_path: *const c_char,
    body: *const u8,
    body_bytes: u64,
    timeout_ms: u64,
    max_answer_bytes: u64,
}

/// Receives the answer from [`tracetee_respond`].
#[derive(Debug, Default)]
pub struct CResponse(Option<Response>);

/// The app's HTTP client; returns one of `TRACETEE_SENT`, `TRACETEE_UNREACHABLE`, `TRACETEE_BROKEN`.
pub type CSend = unsafe extern "C" fn(*const CRequest, *mut CResponse, *mut c_void) -> c_int;

const SENT: c_int = 0;
const UNREACHABLE: c_int = 1;

/// Records the user's consent. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_set_consent(given: bool) -> c_int {
    guarded(|| controller::set_consent(given).map(|()| 0))
}

/// Sets the state of network and power. See `tracetee.h`.
///
/// # Safety
/// `net_json` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_set_network(net_json: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    let net = unsafe { text(net_json) };
    guarded(|| match net {
        Some(json) => {
            controller::set_network(record::parse(json.as_bytes(), Limits::DEFAULT)?).map(|()| 0)
        }
        None => Ok(fail(ERROR_ARGUMENT, "net_json is null or not UTF-8")),
    })
}

/// Sends waiting captures with the app's HTTP client. See `tracetee.h`.
///
/// # Safety
/// `net_json` is null or a NUL-terminated string; `send` may be called on this thread with `user`
/// until this returns; `buffer` is null, or points to `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_upload(
    net_json: *const c_char,
    send: Option<CSend>,
    user: *mut c_void,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let net = unsafe { text(net_json) };
    guarded(|| {
        let Some(send) = send else { return Ok(fail(ERROR_ARGUMENT, "send is null")) };
        let net: Option<NetState> = match net {
            Some(json) => Some(record::parse(json.as_bytes(), Limits::DEFAULT)?),
            None if net_json.is_null() => None,
            None => return Ok(fail(ERROR_ARGUMENT, "net_json is not UTF-8")),
        };
        // SAFETY: as the caller promises.
        let mut transport = |request: &Request<'_>| unsafe { hand(send, user, request) };
        let report = controller::upload(net, &mut transport)?;
        // SAFETY: as the caller promises.
        Ok(unsafe { give_text(&report.to_json(), buffer, size) })
    })
}

/// Passes the answer to a request. See `tracetee.h`.
///
/// # Safety
/// `response` is the argument of the running call of the app's function; `headers` is null or a
/// NUL-terminated string; `body` is null, or points to `body_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_respond(
    response: *mut CResponse,
    status: c_int,
    headers: *const c_char,
    body: *const u8,
    body_bytes: usize,
) {
    // SAFETY: as the caller promises.
    let Some(response) = (unsafe { response.as_mut() }) else { return };
    // SAFETY: as the caller promises.
    let headers = unsafe { text(headers) }.unwrap_or_default();
    // SAFETY: as the caller promises.
    let body = unsafe { bytes(body, body_bytes) };
    let _ = guard::enter(|| {
        let status = u16::try_from(status).unwrap_or(0);
        response.0 = Some(Response::new(status, headers, body.to_owned()));
    });
}

/// # Safety
/// `send` may be called with `user`.
unsafe fn hand(send: CSend, user: *mut c_void, request: &Request<'_>) -> Result<Response, Failure> {
    let nothing = |_| Failure::Unreachable("the request has a NUL".to_owned());
    let method = CString::new(request.method).map_err(nothing)?;
    let url = CString::new(request.url.as_str()).map_err(nothing)?;
    let headers = CString::new(request.header_lines()).map_err(nothing)?;
    let (path, body, body_bytes) = match request.body {
        Body::None => (None, std::ptr::null(), 0),
        Body::Bytes(bytes) => (None, bytes.as_ptr(), bytes.len() as u64),
        Body::File { path, bytes } => {
            let path = path.as_os_str().as_encoded_bytes();
            (Some(CString::new(path).map_err(nothing)?), std::ptr::null(), bytes)
        }
    };
    let given = CRequest {
        method: method.as_ptr(),
        url: url.as_ptr(),
        headers: headers.as_ptr(),
        body_path: path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr()),
        body,
        body_bytes,
        timeout_ms: u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
        max_answer_bytes: request.max_answer_bytes as u64,
    };
    let mut response = CResponse::default();
    // SAFETY: as the caller promises; the request and the response live until it returns.
    let said = unsafe { send(&raw const given, &raw mut response, user) };
    // It may have called the agent.
    guard::leave_if_broken();
    let failure = |what: &str| format!("the app's HTTP client: {what}");
    match (said, response.0) {
        (SENT, Some(response)) if (100..=999).contains(&response.status) => {
            if response.body.len() > request.max_answer_bytes {
                return Err(Failure::Broken(failure("the answer is too large")));
            }
            Ok(response)
        }
        (UNREACHABLE, _) => Err(Failure::Unreachable(failure("the server cannot be reached"))),
        (SENT, _) => Err(Failure::Broken(failure("it gave no answer"))),
        _ => Err(Failure::Broken(failure("the request broke off"))),
    }
}

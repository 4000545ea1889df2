//! Tests of a pass, with a server that the test plays and a clock that it sets.

use crate::network::{NetState, Network};
use crate::policy::{Allowed, MAX_TRIES, Rules};
use crate::request::Endpoint;
use crate::spool::{Spool, Waiting};
use crate::spool_tests::{at, put, spool};
use crate::timestamp::Now;
use crate::transport::{Body, Failure, Request, Response};
use crate::uploader::{Conditions, Pass, Uploader};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tracetee_protocol::CaptureMeta;

/// A device with a spool, and the uploader on it.
struct Device {
    _directory: TempDir,
    spool: Spool,
    uploader: Uploader,
    conditions: Conditions,
    now: Cell<Now>,
    stop: AtomicBool,
}

const URL: &str = "https://collector.example";

impl Device {
    fn new() -> Self {
        Self::with(Endpoint::new(URL, Some("t0ken"), false).unwrap())
    }

    fn with(endpoint: Endpoint) -> Self {
        let (directory, spool) = spool();
        let same = Spool::open(spool.root()).unwrap();
        Self {
            uploader: Uploader::new(
                same,
                endpoint,
                CaptureMeta { install_id: Some("i".to_owned()), ..CaptureMeta::default() },
            ),
            spool,
            _directory: directory,
            conditions: Conditions { net: NetState::MAINS, poll: None, ..Conditions::default() },
            now: Cell::new(at(0)),
            stop: AtomicBool::new(false),
        }
    }

    fn put(&mut self, label: &str) -> Waiting {
        put(&mut self.spool, label, self.now.get())
    }

    /// A pass against a server that answers so; and what was asked of it.
    fn pass(
        &mut self,
        mut answer: impl FnMut(&Request<'_>) -> Result<Response, Failure>,
    ) -> (Pass, Vec<String>) {
        let mut asked = Vec::new();
        let mut transport = |request: &Request<'_>| {
            asked.push(format!("{} {}", request.method, request.url.trim_start_matches(URL)));
            answer(request)
        };
        let (now, stop) = (&self.now, &self.stop);
        let pass = self.uploader.pass(&mut transport, &self.conditions, &|| now.get(), stop);
        (pass, asked)
    }

    fn later(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap();
        let now = self.now.get();
        self.now.set(Now { boot_ms: now.boot_ms + ms, real_ms: now.real_ms + ms, ..now });
    }

    fn waiting(&self) -> usize {
        self.spool.waiting(self.now.get()).len()
    }

    fn lost(&self) -> Value {
        json!(std::collections::BTreeMap::from_iter(&self.spool.losses().count()))
    }
}

fn status(status: u16) -> Result<Response, Failure> {
    Ok(Response { status, ..Response::default() })
}

fn with(status: u16, name: &str, value: &str) -> Result<Response, Failure> {
    let headers = vec![(name.to_owned(), value.to_owned())];
    Ok(Response { status, headers, body: Vec::new() })
}

#[test]
fn waiting_captures_are_sent_in_their_order_and_deleted() {
    let mut device = Device::new();
    let ids: Vec<String> = ["a", "b", "c"]
        .map(|label| {
            device.later(Duration::from_secs(1));
            device.put(label).id()
        })
        .to_vec();
    let mut bodies = Vec::new();
    let (pass, asked) = device.pass(|request| {
        let Body::File { path, bytes } = request.body else { panic!("no file") };
        let body = fs::read(path).unwrap();
        assert_eq!(body.len() as u64, bytes);
        bodies.push(body);
        status(201)
    });
    assert_eq!(pass.delivered, ids);
    assert_eq!(asked, ids.iter().map(|id| format!("PUT /v1/captures/{id}")).collect::<Vec<_>>());
    assert_eq!((pass.held, device.waiting(), device.lost()), (None, 0, json!({})));
    let report = device.uploader.status(device.now.get());
    assert_eq!((report.waiting, report.delivered), (0, 3));
    assert_eq!(report.bytes_in_day, bodies.iter().map(|body| body.len() as u64).sum::<u64>());
    assert_eq!(report.last.unwrap().outcome, "delivered (201)");
}

#[test]
fn the_first_failure_ends_the_pass_and_the_next_one_waits() {
    let mut device = Device::new();
    device.put("a");
    device.later(Duration::from_secs(1));
    device.put("b");
    let (pass, asked) = device.pass(|_| Err(Failure::Unreachable("no such host".to_owned())));
    assert_eq!((asked.len(), pass.held.as_deref()), (1, Some("no such host")));
    assert!(pass.again <= Duration::from_secs(60));
    assert_eq!(device.spool.waiting(device.now.get())[0].name.tries, 0, "not the capture's fault");
    // A restart makes no difference.
    let wait = device.uploader.status(device.now.get()).wait_s;
    assert!((1..=30).contains(&wait), "{wait}");
    let same = Spool::open(device.spool.root()).unwrap();
    let endpoint = Endpoint::new(URL, None, false).unwrap();
    device.uploader = Uploader::new(same, endpoint, CaptureMeta::default());
    let (pass, asked) = device.pass(|_| status(201));
    assert!(asked.is_empty() && pass.held.unwrap().starts_with("waiting "));
    // Somebody who asks for it does not wait for our own backoff.
    device.conditions.urgent = true;
    let (_, asked) = device.pass(|_| with(503, "Retry-After", "7200"));
    assert_eq!(asked.len(), 1);
    let (pass, asked) = device.pass(|_| status(201));
    assert!(asked.is_empty(), "but for the server's: {pass:?}");
    assert_eq!(pass.again, Duration::from_secs(7200));
    device.later(Duration::from_secs(7200));
    let (pass, _) = device.pass(|_| status(201));
    assert_eq!((pass.delivered.len(), device.waiting()), (2, 0));
    assert_eq!(device.uploader.status(device.now.get()).failures, 0);
}

#[test]
fn a_capture_that_the_server_always_fails_with_lets_others_pass_and_is_given_up() {
    let mut device = Device::new();
    let poison = device.put("poison").id();
    let answer = |request: &Request<'_>| match request.url.ends_with(&poison) {
        true => status(500),
        false => status(201),
    };
    let mut others = 0;
    for _ in 0..MAX_TRIES {
        device.later(Duration::from_secs(1));
        device.put("other");
        let (pass, _) = device.pass(answer);
        others += pass.delivered.len();
        device.later(pass.again);
    }
    device.pass(answer);
    assert_eq!((others, device.waiting()), (MAX_TRIES as usize, 0));
    let status = device.uploader.status(device.now.get());
    assert_eq!(
        json!(std::collections::BTreeMap::from_iter(&status.lost)),
        json!({}),
        "the last pass has told it"
    );
}

#[test]
fn a_loss_report_is_sent_once_behind_the_captures() {
    let mut device = Device::new();
    let ids = [device.put("a").id(), device.put("b").id()];
    let answer = |request: &Request<'_>| match request.url.ends_with(&ids[0]) {
        true => status(413),
        false => status(201),
    };
    let mut reports = Vec::new();
    let (pass, asked) = device.pass(|request| {
        if let Body::Bytes(bytes) = request.body {
            reports.push(serde_json::from_slice::<Value>(bytes).unwrap());
            return Err(Failure::Broken("the answer is lost".to_owned()));
        }
        answer(request)
    });
    assert_eq!(pass.delivered, [ids[1].clone()]);
    assert!(asked[2].starts_with("PUT /v1/losses/"), "{asked:?}");
    device.later(pass.again);
    let (_, again) = device.pass(|request| {
        let Body::Bytes(bytes) = request.body else { panic!("no report") };
        reports.push(serde_json::from_slice(bytes).unwrap());
        status(412)
    });
    assert_eq!(again, [asked[2].clone()], "the same one");
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0]["by_reason"], json!({"status_413": 1}));
    assert_eq!(reports[0]["lost"][0]["id"], json!(ids[0]));
    assert_eq!(reports[0]["install_id"], "i");
    let (_, none) = device.pass(|_| status(201));
    assert!(none.is_empty() && device.lost() == json!({}));
}

#[test]
fn a_loss_of_a_capture_that_was_sent_without_an_answer_is_marked_so() {
    let mut device = Device::new();
    device.put("a");
    for _ in 0..MAX_TRIES {
        let (pass, _) = device.pass(|_| Err(Failure::Broken("cut".to_owned())));
        device.later(pass.again);
    }
    let mut told = Value::Null;
    device.pass(|request| {
        let Body::Bytes(bytes) = request.body else { panic!("it was given up") };
        told = serde_json::from_slice(bytes).unwrap();
        status(200)
    });
    assert_eq!(told["lost"][0]["reason"], "tries");
    assert_eq!(told["lost"][0]["unconfirmed"], true);
}

#[test]
fn a_capture_that_a_killed_process_was_sending_is_sent_again() {
    let mut device = Device::new();
    let id = device.put("a").id();
    let waiting = device.spool.waiting(at(0)).remove(0);
    device.spool.take_out(&waiting).unwrap();
    assert_eq!(device.waiting(), 0);
    let (pass, _) = device.pass(|_| status(412));
    assert_eq!(pass.delivered, [id]);
    assert_eq!(device.lost(), json!({}));
}

#[test]
fn only_one_process_sends() {
    let mut device = Device::new();
    device.put("a");
    let other = Spool::open(device.spool.root()).unwrap();
    let sender = other.lock_sender().unwrap().unwrap();
    let (pass, asked) = device.pass(|_| status(201));
    assert!(asked.is_empty() && pass.held.unwrap().starts_with("another process"));
    drop(sender);
    assert_eq!(device.pass(|_| status(201)).0.delivered.len(), 1);
}

#[test]
fn constraints_budgets_kill_switch_and_consent_keep_it_silent() {
    let mut device = Device::new();
    let one = device.put("a");
    let silent = |device: &mut Device, why: &str| {
        let (pass, asked) = device.pass(|_| status(201));
        let held = pass.held.unwrap();
        assert!(asked.is_empty() && held.contains(why), "{held}");
    };
    device.conditions.net = NetState::default();
    silent(&mut device, "unmetered");
    device.conditions.net = NetState { network: Network::None, ..NetState::MAINS };
    silent(&mut device, "no network");
    device.conditions.net = NetState::MAINS;
    device.conditions.rules = Rules { network: Allowed::Never, ..Rules::default() };
    silent(&mut device, "no upload");
    device.conditions.rules = Rules::default();
    device.conditions.killed = true;
    silent(&mut device, "allows nothing");
    device.conditions.killed = false;
    // A day's bytes, over a restart and with the clock set.
    device.conditions.rules.bytes_per_day = one.bytes + one.bytes / 2;
    device.later(Duration::from_secs(1));
    device.put("b");
    let (pass, _) = device.pass(|_| status(201));
    assert!(pass.delivered.len() == 1 && pass.held.unwrap().contains("of the day's"));
    device.now.set(Now { real_ms: 0, ..device.now.get() });
    silent(&mut device, "of the day's");
    device.now.set(Now { real_ms: 9_000_000_000_000, ..device.now.get() });
    silent(&mut device, "of the day's");
    device.later(Duration::from_secs(24 * 3600));
    assert_eq!(device.pass(|_| status(201)).0.delivered.len(), 1);
    device.put("c");
    device.spool.withdraw().unwrap();
    silent(&mut device, "consent");
    assert_eq!(device.waiting(), 0);
}

#[test]
fn a_purge_while_it_is_sent_leaves_nothing() {
    let mut device = Device::new();
    device.put("a");
    let root = device.spool.root().to_owned();
    let (pass, _) = device.pass(|_| {
        Spool::open(&root).unwrap().withdraw().unwrap();
        Err(Failure::Broken("cut".to_owned()))
    });
    assert_eq!(pass.held.as_deref(), Some("cut"));
    assert_eq!((device.waiting(), device.lost()), (0, json!({})));
    assert!(device.spool.sending().is_empty());
}

#[test]
fn a_request_that_is_told_to_stop_is_no_failure() {
    let mut device = Device::new();
    device.put("a");
    let (pass, _) = device.pass(|request| {
        // As the agent's end does while the request is in progress.
        request.stop.store(true, Ordering::Relaxed);
        Err(Failure::Broken("x".to_owned()))
    });
    assert_eq!(pass.held.as_deref(), Some("a stop was requested"));
    assert_eq!((device.waiting(), device.uploader.status(device.now.get()).failures), (1, 0));
    let (_, asked) = device.pass(|_| status(201));
    assert!(asked.is_empty(), "nor is another one begun");
    let waiting = device.spool.waiting(device.now.get()).remove(0);
    assert!(waiting.name.unconfirmed && waiting.name.tries == 0);
}

#[test]
fn damaged_captures_are_not_sent() {
    let mut device = Device::new();
    let one = device.put("a");
    let mut bytes = fs::read(&one.path).unwrap();
    bytes[100] ^= 1;
    fs::write(&one.path, bytes).unwrap();
    let (_, asked) = device.pass(|_| status(201));
    assert!(asked.len() == 1 && asked[0].contains("losses"), "{asked:?}");
}

#[test]
fn the_configuration_is_asked_for_when_it_is_due_and_handed_on_untouched() {
    let mut device = Device::new();
    device.conditions.poll = Some(Duration::from_secs(3600));
    device.conditions.killed = true;
    let config = |etag: &str| {
        let headers = [("ETag", etag), ("X-Tracetee-Signature", "c0ffee")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Ok(Response { status: 200, headers, body: b"{\"schema\": 1}".to_vec() })
    };
    let (pass, asked) = device.pass(|request| {
        assert!(!request.headers.iter().any(|(name, _)| name == "If-None-Match"));
        assert!(request.headers.contains(&("Authorization".to_owned(), "Bearer t0ken".to_owned())));
        config("\"v1\"")
    });
    assert_eq!(asked, ["GET /v1/config"], "the kill switch does not keep it from that");
    let found = pass.config.unwrap();
    assert_eq!((&*found.bytes, &*found.signature), (&b"{\"schema\": 1}"[..], &b"c0ffee"[..]));
    let (pass, asked) = device.pass(|_| config("\"v1\""));
    assert!(asked.is_empty() && pass.config.is_none(), "not due");
    // It may be the kill switch: what waits is not sent in the same pass.
    device.conditions.killed = false;
    let id = device.put("a").id();
    device.later(Duration::from_secs(3600));
    let (pass, asked) = device.pass(|_| config("\"v1\""));
    assert_eq!((asked.len(), pass.again), (1, Duration::from_secs(1)));
    assert!(pass.held.unwrap().contains("decides first"));
    // A server that knows no ETags gives the one in force again: that is not another one.
    device.later(Duration::from_secs(3600));
    device.conditions.config_digest = Some(hmac_sha256::Hash::hash(b"{\"schema\": 1}"));
    let (pass, _) = device.pass(|request| match request.method {
        "GET" => config("\"v1\""),
        _ => status(201),
    });
    assert_eq!((pass.config, pass.delivered), (None, vec![id]));
    device.conditions.killed = true;
    // It is in force: only another one is wanted. It was refused: it is wanted again.
    for (digest, expected) in
        [(hmac_sha256::Hash::hash(b"{\"schema\": 1}"), Some("\"v1\"")), ([0; 32], None)]
    {
        device.later(Duration::from_secs(3600));
        device.conditions.config_digest = Some(digest);
        let (pass, asked) = device.pass(|request| {
            let mut headers = request.headers.iter();
            let etag = headers.find(|(name, _)| name == "If-None-Match");
            assert_eq!(etag.map(|(_, etag)| etag.as_str()), expected);
            status(304)
        });
        assert!(asked.len() == 1 && pass.config.is_none());
    }
    device.conditions.net.roaming = true;
    device.later(Duration::from_secs(3600));
    assert!(device.pass(|_| status(304)).1.is_empty());
    device.conditions.net.roaming = false;
    let (pass, _) = device.pass(|_| with(429, "Retry-After", "100"));
    assert!(pass.again >= Duration::from_secs(100));
}

#[test]
fn a_configuration_without_an_answer_is_asked_for_again_before_its_interval_is_over() {
    let mut device = Device::new();
    device.conditions.poll = Some(Duration::from_secs(3600));
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        device.pass(|_| panic!("the process dies"));
    }));
    assert!(killed.is_err());
    let asks = |device: &mut Device, answer: fn() -> Result<Response, Failure>| {
        device.pass(|_| answer()).1.iter().filter(|asked| asked.starts_with("GET")).count()
    };
    assert_eq!(asks(&mut device, || status(404)), 0, "not at each start of an app that dies");
    device.later(Duration::from_secs(120));
    assert_eq!(asks(&mut device, || Err(Failure::Unreachable("no such host".to_owned()))), 1);
    // A capture is sent between two failures of the configuration.
    for failures in 1..9 {
        let id = device.put("a").id();
        device.later(Duration::from_millis(device.uploader.state.wait().left_ms(device.now.get())));
        device.later(Duration::from_secs(60));
        let (pass, asked) = device.pass(|_| status(201));
        assert_eq!((pass.delivered, asked.len()), (vec![id], 1), "{failures}");
        device.later(Duration::from_secs(120));
        assert_eq!(asks(&mut device, || status(500)), 1, "{failures}");
    }
    device.later(Duration::from_secs(120));
    assert_eq!(asks(&mut device, || status(404)), 1);
    device.later(Duration::from_secs(3599));
    assert_eq!(asks(&mut device, || status(404)), 0, "an answer holds for the interval");
}

#[test]
fn clocks_that_jump_make_no_storm_and_no_eternity() {
    let mut device = Device::new();
    device.put("a");
    let mut asked = 0;
    let (mut passes, start) = (0, device.now.get().boot_ms);
    // Ten days in which the wall clock is set again and again and nobody answers.
    for step in 0..2_000u64 {
        let real_ms = match step % 3 {
            0 => 0,
            1 => 1_700_000_000_000,
            _ => 9_000_000_000_000,
        };
        device.now.set(Now { real_ms, ..device.now.get() });
        let (pass, requests) = device.pass(|_| Err(Failure::Unreachable("no".to_owned())));
        asked += requests.len();
        passes += 1;
        assert!(pass.again <= Duration::from_secs(24 * 3600));
        device.later(Duration::from_secs(432));
    }
    let days = (device.now.get().boot_ms - start) / 86_400_000;
    assert_eq!((passes, days), (2_000, 10));
    // Seven days until it is too old; four to five waits of three hours on average a day.
    assert!((20..150).contains(&asked), "{asked}");
    assert_eq!(device.waiting(), 0);
    assert_eq!(device.lost(), json!({"age": 1}));
}

/// Closes a part of that day.
fn close_part(device: &Device, day: u32) -> Vec<u8> {
    let part = tracetee_ledger::Part { day, ..Default::default() }.encode().unwrap();
    let (mut file, _) = device.spool.open_ledger(|_| false, device.now.get()).unwrap();
    file.write(&part).unwrap();
    file.close().unwrap();
    device.later(Duration::from_secs(1));
    part
}

#[test]
fn parts_of_the_ledger_are_sent_before_captures_also_where_those_wait() {
    let mut device = Device::new();
    device.conditions.net.network = Network::Metered;
    let capture = device.put("a").id();
    let parts = [close_part(&device, 1), close_part(&device, 2)];
    let mut sent = Vec::new();
    let (pass, asked) = device.pass(|request| {
        let Body::Bytes(bytes) = request.body else { panic!("no part") };
        sent.push(zstd::bulk::decompress(bytes, 1 << 16).unwrap());
        let header = |name: &str| {
            let found = request.headers.iter().find(|header| header.0 == name);
            found.unwrap_or_else(|| panic!("{name}")).1.clone()
        };
        assert_eq!(header("Content-Type"), "application/x-tracetee-ledger");
        assert_eq!(header("Content-Encoding"), "zstd");
        assert_eq!(header("X-Tracetee-Meta"), "eyJpbnN0YWxsX2lkIjoiaSJ9");
        status(201)
    });
    assert_eq!(sent, parts);
    assert!(asked.iter().all(|asked| asked.starts_with("PUT /v1/ledgers/")), "{asked:?}");
    assert!(pass.held.unwrap().contains("unmetered"));
    assert_eq!((device.spool.parts().len(), device.waiting()), (0, 1));
    device.conditions.net.network = Network::Unmetered;
    assert_eq!(device.pass(|_| status(201)).1, [format!("PUT /v1/captures/{capture}")]);
}

#[test]
fn each_answer_to_a_part_counts_once() {
    for (code, left, lost) in [
        (200, 0, json!({})),
        (412, 0, json!({})),
        // Another part has its number.
        (409, 0, json!({"status_409": 1})),
        (400, 0, json!({"status_400": 1})),
        (404, 1, json!({})),
        (500, 1, json!({})),
        (503, 1, json!({})),
    ] {
        let mut device = Device::new();
        close_part(&device, 1);
        device.put("a");
        // The server takes captures whatever it says of parts.
        let mut report = json!({});
        let mut answer = |request: &Request<'_>| {
            if let (true, Body::Bytes(bytes)) = (request.url.contains("/losses/"), &request.body) {
                report = serde_json::from_slice::<Value>(bytes).unwrap()["by_reason"].take();
            }
            status(if request.url.contains("ledgers") { code } else { 201 })
        };
        let (_, asked) = device.pass(&mut answer);
        assert_eq!((device.spool.parts().len(), device.waiting()), (left, 0), "{code} {asked:?}");
        let sent = |asked: &[String]| asked.iter().filter(|one| one.contains("ledgers")).count();
        assert_eq!(sent(&asked), 1);
        // The server is asked again after an hour, and the same id with it.
        assert_eq!(sent(&device.pass(&mut answer).1), 0);
        device.later(Duration::from_secs(3601));
        assert_eq!(sent(&device.pass(&mut answer).1), left, "{code}");
        // A loss is in the report that went with the first pass.
        assert_eq!(report, lost, "{code}");
    }
    let mut device = Device::new();
    close_part(&device, 1);
    let (pass, _) = device.pass(|_| Err(Failure::Broken("reset".to_owned())));
    assert_eq!((pass.held.as_deref(), device.spool.parts().len()), (Some("reset"), 1));
    device.conditions.killed = true;
    device.later(Duration::from_secs(3601));
    assert!(device.pass(|_| status(200)).1.is_empty());
    device.conditions.killed = false;
    device.conditions.rules.network = Allowed::Never;
    assert!(device.pass(|_| status(200)).1.is_empty());
}

#[test]
fn a_damaged_part_is_lost_and_counted() {
    let mut device = Device::new();
    close_part(&device, 1);
    let path = device.spool.parts().remove(0).1;
    fs::write(&path, b"torn").unwrap();
    let (_, asked) = device.pass(|_| status(201));
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("/v1/losses/"));
    assert_eq!(device.spool.parts().len(), 0);
}

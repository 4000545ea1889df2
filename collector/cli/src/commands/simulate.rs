//! `tracetee simulate`: a fleet that is not there sends to a collector, as fast as it takes it.

use crate::args::SimulateArgs;
use crate::http::{MAX_ANSWER_BYTES, upload_headers};
use crate::terminal::print;
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tracetee_protocol::http;
use tracetee_server::{Right, first_token};
use tracetee_simulate::{Plan, Simulated, Truth};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Request, Transport};

/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of attempts with a capture that the collector defers.
const TRIES: u32 = 20;

/// Sends a fleet's captures.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<()> {
    let mut plan = match &args.plan {
        // Of the last days: a collector does not believe ids that are much older.
        None => {
            let plan = Plan::default();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let today = now.as_secs() / 86_400;
            Plan { from_s: today.saturating_sub(plan.days) * 86_400, ..plan }
        }
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            serde_json::from_str(&text).with_context(|| path.display().to_string())?
        }
    };
    if let Some(frames) = args.frames {
        plan.frames = frames;
    }
    if let Some(fault) = plan.fault() {
        bail!("invalid plan: {fault}");
    }
    if args.print_plan {
        print(&(serde_json::to_string_pretty(&plan)? + "\n"));
        return Ok(());
    }
    let Some(url) = args.url.as_deref().map(|url| url.trim_end_matches('/')) else {
        bail!("no collector to send to; pass --url URL")
    };
    let token = args.token_file.as_deref();
    let token = token.map(|path| first_token(path, Right::Send)).transpose()?;
    let fleet = Fleet {
        plan: &plan,
        seed: args.seed,
        devices: args.devices,
        url,
        token: token.as_deref(),
        ca_file: args.ca_file.as_deref(),
        next: AtomicU64::new(0),
        sent: Mutex::default(),
        stop: AtomicBool::new(false),
    };
    let started = Instant::now();
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.connections).map(|_| scope.spawn(|| fleet.send())).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a sender thread panicked"),
        });
        joined.collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    let Sent { truth, mut took, bytes, put_off } =
        fleet.sent.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seconds = started.elapsed().as_secs_f64();
    took.sort_unstable();
    let rank = |percent: usize| {
        let place = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took.get(place).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let rate = took.len() as f64 / seconds;
    print(&format!(
        "{} captures of {} devices, {bytes} bytes, in {seconds:.1} s over {} connections: {rate:.0} per second\n\
         response time: p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms; {put_off} retries\n",
        took.len(),
        args.devices,
        args.connections,
        rank(50),
        rank(90),
        rank(99),
    ));
    if let Some(path) = &args.truth {
        std::fs::write(path, serde_json::to_string_pretty(&truth)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

struct Fleet<'a> {
    plan: &'a Plan,
    seed: u64,
    devices: u64,
    url: &'a str,
    token: Option<&'a str>,
    ca_file: Option<&'a Path>,
    next: AtomicU64,
    sent: Mutex<Sent>,
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct Sent {
    truth: Truth,
    took: Vec<Duration>,
    bytes: u64,
    put_off: u64,
}

impl Fleet<'_> {
    /// One connection: device after device, until there is none left.
    fn send(&self) -> Result<()> {
        let mut http = Http::new(self.ca_file)?;
        loop {
            // ORDERING: Relaxed; a number that nobody else gets.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.devices || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (captures, truth) = self.plan.device(self.seed, number);
            for capture in &captures {
                if let Err(error) = self.put(&mut http, capture) {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).truth.add(truth);
        }
    }

    fn put(&self, client: &mut Http, capture: &Simulated) -> Result<()> {
        let body = capture.body()?;
        let mut headers = upload_headers(http::FTRACE_TEXT, &body, self.token);
        let meta = URL_SAFE_NO_PAD.encode(capture.meta.to_json());
        let create = (http::IF_NONE_MATCH.to_owned(), http::IF_NOTHING_STORED.to_owned());
        headers.extend([create, (http::META.to_owned(), meta)]);
        let request = Request {
            method: "PUT",
            url: format!("{}{}{}", self.url, http::CAPTURES, capture.id),
            headers,
            body: Body::Bytes(&body),
            timeout: TIMEOUT,
            max_answer_bytes: MAX_ANSWER_BYTES,
            stop: &self.stop,
        };
        for attempt in 0..TRIES {
            let from = Instant::now();
            let answer = client.send(&request);
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            match answer {
                Ok(answer) if matches!(answer.status, 200 | 201 | 409 | 412) => {
                    sent.took.push(from.elapsed());
                    sent.bytes += body.len() as u64;
                    return Ok(());
                }
                Ok(answer) if matches!(answer.status, 429 | 503) => sent.put_off += 1,
                Ok(answer) => {
                    let said = String::from_utf8_lossy(&answer.body).trim().to_owned();
                    bail!("the collector answered {}: {said}", answer.status)
                }
                Err(failure) if attempt + 1 == TRIES => {
                    bail!("cannot send to {failure}")
                }
                Err(_) => sent.put_off += 1,
            }
            drop(sent);
            std::thread::sleep(Duration::from_millis(100) * (attempt + 1));
        }
        bail!(
            "the collector refused capture {} {TRIES} times because it is busy; use fewer --connections",
            capture.id
        )
    }
}

//! Sends a simulated fleet's captures to a collector, as fast as it accepts them.

use anyhow::{Result, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracetee_protocol::{CaptureMeta, http};
use tracetee_simulate::{Plan, Truth};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Endpoint, Transport};

/// Number of attempts with a capture that the collector defers.
const TRIES: u32 = 20;

/// The id under which each ledger is sent.
const ANY_ID: &str = "019a1fd7-2955-7cfa-a44a-a7427d9591d5";

/// A collector, and the devices that send to it.
#[derive(Debug, Clone, Copy)]
pub struct Fleet<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Seed of the simulation.
    pub seed: u64,
    /// Number of devices.
    pub devices: u64,
    /// Number of concurrent requests.
    pub connections: u16,
    /// The collector, and its token.
    pub endpoint: &'a Endpoint,
    /// CA certificates to verify the collector with.
    pub ca_file: Option<&'a Path>,
    /// Is called after each device, with the number of all.
    pub note_device: fn(u64),
}

/// Counts of sent objects.
#[derive(Debug, Default)]
pub struct Sent {
    /// The truth about it.
    pub truth: Truth,
    /// Response times of the captures, sorted.
    pub took: Vec<Duration>,
    /// Bytes of the bodies.
    pub bytes: u64,
    /// Number of requests that were sent again.
    pub put_off: u64,
}

/// Sends a fleet's captures.
///
/// # Errors
/// The collector's answer, or the reason why there was none.
pub fn send(fleet: &Fleet<'_>) -> Result<Sent> {
    let sender = Sender {
        fleet,
        next: AtomicU64::new(0),
        sent: Mutex::default(),
        stop: AtomicBool::new(false),
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..fleet.connections).map(|_| scope.spawn(|| sender.send())).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a sender thread panicked"),
        });
        joined.collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    let mut sent = sender.sent.into_inner().unwrap_or_else(PoisonError::into_inner);
    sent.took.sort_unstable();
    Ok(sent)
}

struct Sender<'a> {
    fleet: &'a Fleet<'a>,
    next: AtomicU64,
    sent: Mutex<Sent>,
    stop: AtomicBool,
}

impl Sender<'_> {
    /// One connection sends for one device after another, until all have sent.
    fn send(&self) -> Result<()> {
        let mut http = Http::new(self.fleet.ca_file)?;
        loop {
            // ORDERING: Relaxed; only a unique number.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.fleet.devices || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (captures, truth, ledgers) = self.fleet.plan.device(self.fleet.seed, number);
            let captures = captures.iter().map(|one| {
                (format!("{}{}", http::CAPTURES, one.id), http::FTRACE_TEXT, &one.meta, one.body())
            });
            // The collector knows a ledger by its content, whatever its id is.
            let ledgers = ledgers.iter().map(|one| {
                (format!("{}{ANY_ID}", http::LEDGERS), http::LEDGER, &one.meta, one.body())
            });
            let sent = captures.chain(ledgers).try_for_each(|(to, kind, meta, body)| {
                self.put(&mut http, (&to, kind), meta, &body?)
            });
            if let Err(error) = sent {
                self.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).truth.add(truth);
            (self.fleet.note_device)(self.fleet.devices);
        }
    }

    fn put(
        &self,
        client: &mut Http,
        kind: (&str, &str),
        meta: &CaptureMeta,
        body: &[u8],
    ) -> Result<()> {
        let (to, content_type) = kind;
        let meta = URL_SAFE_NO_PAD.encode(meta.to_json());
        let endpoint = &self.fleet.endpoint;
        let request = endpoint.put_once(to, content_type, body, Some(&meta), &self.stop);
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
            "the collector refused {to} {TRIES} times because it is busy; use fewer --connections"
        )
    }
}

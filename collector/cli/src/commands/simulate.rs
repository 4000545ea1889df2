//! `tracetee simulate`: reads the plan, sends a simulated fleet's captures to a collector, and reports the rate.

use crate::args::SimulateArgs;
use crate::progress;
use crate::terminal::{hinted, print};
use anyhow::{Context, Result, anyhow, bail};
use std::time::{Instant, SystemTime};
use tracetee_demo::send::{Fleet, Sent, send};
use tracetee_server::{Right, first_token};
use tracetee_simulate::Plan;
use tracetee_uploader::Endpoint;

/// Sends a fleet's captures.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<()> {
    let mut plan = match &args.plan {
        // From the last days: a collector does not trust ids that are much older.
        None => {
            let plan = if args.rollout { Plan::rollout() } else { Plan::default() };
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
    let Some(url) = &args.url else {
        return Err(hinted("no collector to send to", "pass --url URL"));
    };
    let token = args.token_file.as_deref();
    let token = token.map(|path| first_token(path, Right::Send, None)).transpose()?;
    let (app, token) = token.unzip();
    // The collector accepts from a token only data of its app.
    if let (Some(app), None) = (app.flatten(), &args.plan) {
        plan.app = app;
    }
    let endpoint =
        Endpoint::new(url, token.as_deref(), true).map_err(|error| anyhow!("--url: {error}"))?;
    let fleet = Fleet {
        plan: &plan,
        seed: args.seed,
        devices: args.devices,
        connections: args.connections,
        endpoint: &endpoint,
        ca_file: args.ca_file.as_deref(),
        note_device: progress::count,
    };
    let started = Instant::now();
    let Sent { truth, took, bytes, put_off } = send(&fleet)?;
    let seconds = started.elapsed().as_secs_f64();
    let rank = |percent: usize| {
        let rank = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took.get(rank).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let rate = took.len() as f64 / seconds;
    let ledgers: u64 = truth.versions.values().map(|version| version.ledgers).sum();
    let captures = took.len() as u64 - ledgers;
    let of_ledgers = if ledgers > 0 { format!(" and {ledgers} ledgers") } else { String::new() };
    print(&format!(
        "{captures} captures{of_ledgers} of {} devices, {bytes} bytes, in {seconds:.1} s over {} connections: {rate:.0} per second\n\
         response time: p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms; {put_off} retries\n",
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

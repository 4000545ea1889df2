//! Records a trace by Perfetto's SDK and writes it to a file: that is how `tests/traces/perfetto-sdk.pftrace` was made.
//!
//! ```sh
//! cargo run -p tracetee-peers --example sdk_trace -- FILE
//! ```

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

#[path = "../perfetto.rs"]
mod perfetto;

use perfetto::perfetto_te_ns;
use perfetto_sdk::track_event::{
    EventContext, TrackEventCounter, TrackEventDebugArg, TrackEventFlow, TrackEventTrack,
};
use perfetto_sdk::{track_event_begin, track_event_counter, track_event_end, track_event_instant};
use std::error::Error;
use std::sync::{Arc, Mutex};

/// Slices in each other with arguments, one that begins a flow, instants.
fn frames(thread: &str, track: &TrackEventTrack, counter: &TrackEventTrack) {
    for number in 0..20 {
        let flow = TrackEventFlow::process_scoped_flow(number + 1);
        track_event_begin!("bench", "frame", |ctx: &mut EventContext| {
            ctx.add_debug_arg("number", TrackEventDebugArg::Uint64(number));
            ctx.add_debug_arg("of", TrackEventDebugArg::String(thread));
            ctx.add_debug_arg("is_even", TrackEventDebugArg::Bool(number % 2 == 0));
        });
        track_event_begin!("bench", "inflate");
        track_event_instant!("bench", "vsync", |ctx: &mut EventContext| {
            ctx.add_debug_arg("distance", TrackEventDebugArg::Double(16.5));
        });
        track_event_begin!("bench", "load", |ctx: &mut EventContext| {
            ctx.set_track(track);
            ctx.set_flow(&flow);
        });
        track_event_end!("bench", |ctx: &mut EventContext| {
            ctx.set_track(track);
        });
        track_event_end!("bench");
        track_event_begin!("bench", "draw", |ctx: &mut EventContext| {
            ctx.set_terminating_flow(&flow);
        });
        track_event_end!("bench");
        track_event_counter!("bench", |ctx: &mut EventContext| {
            ctx.set_track(counter);
            let value = i64::try_from(number).unwrap_or(0) * 3 - 7;
            ctx.set_counter(TrackEventCounter::Int64(value));
        });
        track_event_end!("bench");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: sdk_trace FILE")?;
    let mut session = perfetto::session(1024);
    let process = TrackEventTrack::process_track_uuid();
    let tracks = ["main's network", "the other's network"]
        .map(|name| TrackEventTrack::register_named_track_with_dynamic_name(name, 7, process));
    let counters = ["heap", "things"]
        .map(|name| TrackEventTrack::register_counter_track_with_dynamic_name(name, process));
    let [first_track, second_track] = tracks;
    let [first_counter, second_counter] = counters;
    let (second_track, second_counter) = (second_track?, second_counter?);
    std::thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || frames("worker", &second_track, &second_counter))?
        .join()
        .map_err(|_| "the worker panicked")?;
    frames("main", &first_track?, &first_counter?);
    // A slice that stays open.
    track_event_begin!("bench", "open");
    session.flush_blocking(std::time::Duration::from_secs(5));
    session.stop_blocking();
    let all = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&all);
    session.read_trace_blocking(move |bytes, _| {
        if let Ok(mut all) = taken.lock() {
            all.extend_from_slice(bytes);
        }
    });
    let bytes = all.lock().map_err(|_| "the reader panicked")?;
    std::fs::write(path, &*bytes)?;
    println!("{} bytes", bytes.len());
    Ok(())
}

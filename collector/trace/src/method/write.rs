//! Writes a method trace so that every reader takes it: version 2 (wall time), or 3 (both times).

use super::{Action, MAGIC, MethodTrace, NO_SIGNATURE, SECTIONS};
use std::io::{self, Write};

const HEADER_BYTES: u16 = 32;

/// Writes version 3 if there are both times, else version 2. Returns the number of records that were dropped because
/// their time does not fit into 32 bits.
///
/// # Errors
/// The error of `out`.
pub fn write(trace: &MethodTrace, mut out: impl Write) -> io::Result<u64> {
    let version: u16 = if trace.is_dual { 3 } else { 2 };
    let clock = if trace.is_dual { "dual" } else { "wall" };
    write!(out, "*version\n{version}\ndata-file-overflow=false\nclock={clock}\n")?;
    let ours = ["data-file-overflow", "clock"];
    for (key, value) in trace.keys.iter().filter(|(key, _)| !ours.contains(&&**key)) {
        writeln!(out, "{key}={value}")?;
    }
    out.write_all(b"*threads\n")?;
    for (id, name) in &trace.threads {
        writeln!(out, "{id}\t{name}")?;
    }
    out.write_all(b"*methods\n")?;
    for method in &trace.methods {
        let (class, name) = match &method.name {
            Some(name) => (&*method.class, name),
            None => (SECTIONS, &method.class),
        };
        let signature = match &*method.signature {
            "" => NO_SIGNATURE,
            signature => signature,
        };
        write!(out, "{:#x}\t{class}\t{name}\t{signature}", method.id)?;
        // A signature with its file has the file and no line number.
        let file = if signature.contains('\t') { "" } else { "\t-\t0" };
        writeln!(out, "{file}")?;
    }
    out.write_all(b"*end\n")?;
    out.write_all(MAGIC)?;
    out.write_all(&version.to_le_bytes())?;
    out.write_all(&HEADER_BYTES.to_le_bytes())?;
    out.write_all(&trace.start_us.to_le_bytes())?;
    let record_bytes: u16 = if trace.is_dual { 14 } else { 0 };
    out.write_all(&record_bytes.to_le_bytes())?;
    out.write_all(&[0; 14])?;
    let mut dropped = 0;
    for record in &trace.records {
        let (Ok(time), Ok(wall)) = (u32::try_from(record.time_us), u32::try_from(record.wall_us))
        else {
            dropped += 1;
            continue;
        };
        let action = match record.action {
            Action::Enter => 0,
            Action::Exit => 1,
            Action::Unroll => 2,
        };
        out.write_all(&record.thread.to_le_bytes())?;
        out.write_all(&(record.method | action).to_le_bytes())?;
        if trace.is_dual {
            out.write_all(&time.to_le_bytes())?;
        }
        out.write_all(&wall.to_le_bytes())?;
    }
    Ok(dropped)
}

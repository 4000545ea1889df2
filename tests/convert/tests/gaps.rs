//! Times in which records are missing, in the text of a kernel whose buffer overflowed.

use std::fs::File;
use std::io::Write;
use tracetee_tests::Tracefs;

const WHY: &str = "kernel events overwritten";

/// Processor and time (µs) of a line of the kernel's; `None` for another line.
fn cpu_and_us(line: &str) -> Option<(u32, u64)> {
    let (head, _) = line.split_once(": tracing_mark_write: ")?;
    let (cpu, at) = head.split_once('[')?.1.split_once(']')?;
    let (seconds, us) = at.rsplit_once(' ')?.1.split_once('.')?;
    Some((cpu.parse().ok()?, seconds.parse::<u64>().ok()? * 1_000_000 + us.parse::<u64>().ok()?))
}

#[test]
fn records_that_the_kernel_overwrote_are_gaps_between_the_records_of_their_processor() {
    let Some(tracefs) = Tracefs::open() else { return };
    tracefs.start(8);
    let mut marker = File::options().write(true).open(tracefs.marker()).unwrap();
    let pid = std::process::id();
    let mut write = |count: u32| {
        for number in 0..count {
            // A write is a record.
            marker.write_all(format!("B|{pid}|work {number}").as_bytes()).unwrap();
            marker.write_all(format!("E|{pid}").as_bytes()).unwrap();
        }
    };
    write(10);
    let mut text = "# tracer: nop\n".to_owned() + &tracefs.piped();
    write(2000);
    text += &tracefs.piped();
    let _ = tracefs.stop();

    let trace = tracetee_trace::read(text.as_bytes()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let records = lines.iter().filter(|line| cpu_and_us(line).is_some()).count() as u64;
    let missing = 2 * 2010 - records;
    assert!(missing > 0, "the buffer did not overflow");
    assert_eq!(trace.losses.lost[WHY], missing);
    let gaps = &trace.losses.gaps;
    assert_eq!(gaps.iter().map(|gap| gap.count.unwrap()).sum::<u64>(), missing);
    let notes: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].contains("[LOST")).collect();
    assert_eq!(gaps.len(), notes.len());
    let (first, last) = trace.span_ns.unwrap();
    for at in notes {
        let cpu: u32 = lines[at][4..].split(' ').next().unwrap().parse().unwrap();
        let here =
            |line: &&str| cpu_and_us(line).filter(|&(own, _)| own == cpu).map(|(_, us)| us * 1000);
        let from = lines[..at].iter().rev().find_map(here).unwrap_or(first);
        let to = lines[at..].iter().find_map(here).unwrap_or(last);
        let found = gaps.iter().find(|gap| gap.cpu == Some(cpu) && gap.from_ns == from);
        assert_eq!(found.map(|gap| (gap.why, gap.to_ns)), Some((WHY, to)), "{}", lines[at]);
    }
}

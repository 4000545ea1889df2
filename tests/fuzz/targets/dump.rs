//! Any bytes as a dump of a process that ended: it is refused, or has threads within its limits, and explains the death.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee_jank::{Options, Which, analyze};
use tracetee_protocol::Death;
use tracetee_trace::{Dump, Trace};

fuzz_target!(|input: (&[u8], Option<u32>)| {
    let (bytes, pid) = input;
    let Some(dump) = Dump::parse(bytes, pid) else { return };
    assert!(dump.threads.len() as u64 <= dump.states.values().sum());
    for thread in dump.threads.iter().take(10).chain(dump.main()) {
        let (chain, _) = dump.owners(thread);
        assert!(chain.len() <= dump.threads.len());
    }
    for reason in ["anr", "crash_native", "other"] {
        let death = Death { reason: reason.to_owned(), ..Death::default() };
        let options = Options {
            process: Which::Pid(0),
            death: Some(&death),
            dump: Some(&dump),
            ..Options::default()
        };
        let report = analyze(&Trace::default(), &options).unwrap().death.unwrap();
        assert!(!report.sentence.is_empty());
    }
});

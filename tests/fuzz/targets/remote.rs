//! A remote configuration of any bytes: taken whole within its limits, or refused with the path of
//! what is wrong; and never applied in part.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee::check_config;
use tracetee_protocol::json::Limits;
use tracetee_protocol::record;
use tracetee_protocol::remote_config::Document;

fuzz_target!(|bytes: &[u8]| match check_config(bytes) {
    Ok(_) => {
        let document: Document = record::parse(bytes, Limits::DEFAULT).unwrap();
        document.check_limits().unwrap();
        // An accepted document is accepted again after it was written as JSON.
        let text = record::to_json(&document);
        assert_eq!(check_config(text.as_bytes()), Ok(Vec::new()));
    }
    Err(wrong) => assert!(!wrong.path().is_empty() && !wrong.reason().is_empty()),
});

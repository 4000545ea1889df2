//! A remote configuration of any bytes: taken whole within its limits, or refused with the path of
//! what is wrong; and never applied in part.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee::controller::{check_config, document::Document};

fuzz_target!(|bytes: &[u8]| match check_config(bytes) {
    Ok(_) => {
        let document: Document = serde_json::from_slice(bytes).unwrap();
        document.check().unwrap();
        // What was taken is taken again as it is written here.
        let text = serde_json::to_vec(&document).unwrap();
        assert_eq!(check_config(&text), Ok(Vec::new()));
    }
    Err(wrong) => assert!(!wrong.path.is_empty() && !wrong.reason.is_empty()),
});

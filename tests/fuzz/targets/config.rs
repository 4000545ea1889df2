//! A configuration of any bytes: taken whole within its limits, or refused with a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee::Config;

fuzz_target!(|text: &str| {
    match Config::from_json(text) {
        Ok(config) => assert!(config.validate().is_ok()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

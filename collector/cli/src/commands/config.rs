//! `tracetee config check` and `config sign`: a remote configuration before it is served.
//!
//! The rules are those of devices and of the collector, which serves nothing that this refuses.

use crate::args::{CheckArgs, ConfigCommand, SignArgs};
use crate::output::Output;
use crate::terminal::print;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_compact::{KeyPair, Seed};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use tracetee_protocol::remote_config::{self, Opens, Parsed};
use tracetee_server::check_signature;

/// DER of an Ed25519 private key, up to its 32 bytes (RFC 8410).
const PRIVATE_KEY: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// Checks or signs.
pub(crate) fn config(command: &ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Sign(args) => sign(args),
    }
}

fn check(args: &CheckArgs) -> Result<()> {
    let (_, parsed) = read(&args.file)?;
    let is_signed = check_signature(&args.file, args.public_key.as_deref())?;
    let signed = match (is_signed, &args.public_key) {
        (false, _) => "not signed",
        (true, None) => "signed; --public-key checks by whom",
        (true, Some(_)) => "signed by this key",
    };
    print(&described(&args.file, &parsed, signed));
    Ok(())
}

fn sign(args: &SignArgs) -> Result<()> {
    let (bytes, parsed) = read(&args.file)?;
    let pem = std::fs::read_to_string(&args.key)
        .with_context(|| format!("cannot read the private key {}", args.key.display()))?;
    let seed = seed_of(&pem).with_context(|| {
        format!("{} is no Ed25519 private key as `tracetee init` writes it", args.key.display())
    })?;
    let signature = KeyPair::from_seed(Seed::new(seed)).sk.sign(&bytes, None);
    let path = args.file.with_added_extension("sig");
    let mut out = Output::create(&path)?;
    out.write_all(signature.as_ref())?;
    out.finish()?;
    print(&described(&args.file, &parsed, &format!("signed: {}", path.display())));
    Ok(())
}

fn read(path: &Path) -> Result<(Vec<u8>, Parsed)> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed =
        remote_config::parse_to_serve(&bytes).with_context(|| path.display().to_string())?;
    Ok((bytes, parsed))
}

fn described(path: &Path, parsed: &Parsed, signed: &str) -> String {
    let (document, path) = (&parsed.document, path.display());
    let mut text =
        format!("{path}: seq {}, {} windows, {signed}\n", document.seq, document.windows.len());
    for warning in &parsed.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    if !document.windows.iter().any(|window| matches!(window.opens, Opens::Schedule(_))) {
        text.push_str(
            "warning: no window opens by schedule, so reports have no rates and no comparison\n",
        );
    }
    if document.kill.on {
        text.push_str("warning: the kill switch is on, so nothing is captured\n");
    }
    text
}

/// Returns the secret bytes of a private key.
fn seed_of(pem: &str) -> Option<[u8; 32]> {
    let text = pem.split_once(BEGIN)?.1.split_once(END)?.0;
    let text: String = text.split_whitespace().collect();
    STANDARD.decode(text).ok()?.strip_prefix(&PRIVATE_KEY)?.try_into().ok()
}

/// Returns a private key as openssl reads it.
pub(super) fn private_pem(seed: &[u8; 32]) -> String {
    let key = STANDARD.encode([&PRIVATE_KEY[..], seed].concat());
    format!("{BEGIN}\n{key}\n{END}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_configuration_passes_the_check_by_its_key_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let hex = |seed: u8| hex::encode(*KeyPair::from_seed(Seed::new([seed; 32])).pk);
        let (key, own) = (write("key.pem", &private_pem(&[7; 32])), write("own", &hex(7)));
        let (file, other) =
            (write("remote.json", r#"{"schema": 1, "seq": 3}"#), write("other", &hex(8)));
        let checked = |public_key: Option<&Path>| {
            check(&CheckArgs { file: file.clone(), public_key: public_key.map(Path::to_owned) })
                .map_err(|error| format!("{error:#}"))
        };
        checked(None).unwrap();
        assert!(checked(Some(&own)).unwrap_err().contains("there is no "));
        sign(&SignArgs { file: file.clone(), key: key.clone() }).unwrap();
        checked(None).unwrap();
        checked(Some(&own)).unwrap();
        assert!(checked(Some(&other)).unwrap_err().contains("is not the signature of"));
        write("remote.json", r#"{"schema": 1, "seq": 4, "windows": [{"id": 5}]}"#);
        let refused = sign(&SignArgs { file: file.clone(), key }).unwrap_err();
        assert!(format!("{refused:#}").contains("windows[0].id"), "{refused:#}");
        assert!(seed_of("-----BEGIN PRIVATE KEY-----\nMC4\n-----END PRIVATE KEY-----").is_none());
    }
}

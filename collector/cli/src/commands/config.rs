//! `tracetee config check`: checks a remote configuration before it is served.
//!
//! The rules are those of devices and of the collector, which serves nothing that this command refuses.

use crate::args::ConfigCommand;
use crate::terminal::print;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;
use tracetee_protocol::remote_config::{self, Opens, Parsed};
use tracetee_server::check_signature;

/// Checks a remote configuration.
pub(crate) fn config(command: &ConfigCommand) -> Result<()> {
    let ConfigCommand::Check { file: path, public_key } = command;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed =
        remote_config::parse_to_serve(&bytes).with_context(|| path.display().to_string())?;
    let is_signed = check_signature(path, public_key.as_deref())?;
    let signed = match (is_signed, public_key) {
        (false, _) => "not signed",
        (true, None) => "signed; --public-key checks by whom",
        (true, Some(_)) => "signed by this key",
    };
    print(&described(path, &parsed, signed));
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_compact::{KeyPair, Seed};

    #[test]
    fn a_signed_configuration_passes_the_check_by_its_key_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let pair = |seed: u8| KeyPair::from_seed(Seed::new([seed; 32]));
        let document = r#"{"schema": 1, "seq": 3}"#;
        let [own, other] = [7, 8].map(|seed| (seed.to_string(), hex::encode(*pair(seed).pk)));
        let [own, other] = [own, other].map(|(name, key)| write(&name, &key));
        let file = write("remote.json", document);
        let checked = |public_key: Option<&Path>| {
            let public_key = public_key.map(Path::to_owned);
            config(&ConfigCommand::Check { file: file.clone(), public_key })
                .map_err(|error| format!("{error:#}"))
        };
        checked(None).unwrap();
        assert!(checked(Some(&own)).unwrap_err().contains("there is no "));
        let signature = pair(7).sk.sign(document, None);
        std::fs::write(directory.path().join("remote.json.sig"), signature.as_ref()).unwrap();
        checked(None).unwrap();
        checked(Some(&own)).unwrap();
        assert!(checked(Some(&other)).unwrap_err().contains("is not the signature of"));
        write("remote.json", r#"{"schema": 1, "seq": 4, "windows": [{"id": 5}]}"#);
        assert!(checked(None).unwrap_err().contains("windows[0].id"));
    }
}

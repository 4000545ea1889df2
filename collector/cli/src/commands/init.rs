//! `tracetee init`: writes everything that a collector and its apps need before their first capture to one directory:
//! tokens, a key pair, and a signed configuration. Prints the lines for the app and the command for the server. The server's
//! files have their own directory, because the signing key must not go to the server.

use crate::args::InitArgs;
use crate::terminal::{hinted, print};
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_compact::{KeyPair, Seed};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tracetee_protocol::remote_config;
use tracetee_trace::quoted;

/// Captures each start, ten seconds once an hour (which rates and comparisons count), and the five seconds before a janky
/// frame, on all devices and over all networks: for a first look, not for a fleet.
const CONFIGURATION: &str = r#"{"schema": 1, "seq": 1,
 "budget": {"captures_per_hour": 6, "captures_per_day": 30, "bytes_per_day": 20000000},
 "upload": {"network": "any", "metered_bytes_per_day": 20000000, "poll_s": 60},
 "windows": [
   {"id": "start", "opens": "app_start", "max_s": 5},
   {"id": "usage", "opens": {"schedule": {"every_s": 3600}}, "max_s": 10},
   {"id": "jank", "cool_down_s": 10,
    "opens": {"triggers": {"any": [{"jank": {"over_ms": 100}}], "before_s": 5, "after_s": 1}}}]}
"#;

/// The directory that goes to the server.
const SERVER: &str = "server";
/// The files, by name.
const TOKENS: &str = "server/tokens";
const KEY: &str = "key.pem";
const PUBLIC_KEY: &str = "public-key.txt";
const REMOTE: &str = "server/remote.json";
const SIGNATURE: &str = "server/remote.json.sig";

/// Writes the files and prints what to do with them.
pub(crate) fn init(args: &InitArgs) -> Result<()> {
    let app = &args.app;
    if app.is_empty() || app.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#') {
        bail!("--app {}: expected an application id, such as com.example.app", quoted(app));
    }
    let url = url(&args.url)?;
    let out = &args.output;
    let server = out.join(SERVER);
    std::fs::create_dir_all(&server)
        .with_context(|| format!("cannot create {}", server.display()))?;
    for name in [TOKENS, KEY, PUBLIC_KEY, REMOTE, SIGNATURE] {
        if out.join(name).exists() {
            let message = format!("{} exists", out.join(name).display());
            return Err(hinted(message, "pass another directory with -o"));
        }
    }
    remote_config::parse(CONFIGURATION.as_bytes()).context("the example configuration")?;
    let seed: [u8; 32] = random()?;
    let pair = KeyPair::from_seed(Seed::new(seed));
    let public = hex::encode(pair.pk.as_ref());
    let token = hex::encode(random::<24>()?);
    // Anyone who unpacks the app has the first; the second stays where releases are built; people read reports with the
    // third, and Prometheus reads metrics with the fourth.
    let [of_mappings, of_readers, of_metrics] =
        [random::<24>()?, random()?, random()?].map(hex::encode);
    let tokens = format!(
        "{app} {token}\n{app} {of_mappings} mappings\n{app} {of_readers} read\n* {of_metrics} metrics\n"
    );
    create(&out.join(TOKENS), tokens.as_bytes(), 0o600)?;
    create(&out.join(KEY), private_pem(&seed).as_bytes(), 0o600)?;
    create(&out.join(PUBLIC_KEY), format!("{public}\n").as_bytes(), 0o644)?;
    create(&out.join(REMOTE), CONFIGURATION.as_bytes(), 0o644)?;
    // Deterministic, as in RFC 8032: without additional randomness.
    create(&out.join(SIGNATURE), pair.sk.sign(CONFIGURATION, None).as_ref(), 0o644)?;
    print(&checklist(app, out, &url, &token, &public));
    Ok(())
}

/// Returns the collector's address, without a slash at its end.
fn url(text: &str) -> Result<String> {
    let trimmed = text.trim_end_matches('/');
    let host = trimmed.strip_prefix("https://").or_else(|| trimmed.strip_prefix("http://"));
    match host {
        Some(host)
            if !host.is_empty()
                && !host.contains(|c: char| c.is_whitespace() || "\"\\<&".contains(c)) =>
        {
            Ok(trimmed.to_owned())
        }
        _ => bail!("--url {text}: expected https://HOST or http://HOST"),
    }
}

/// Returns bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes)
}

/// DER of an Ed25519 private key, up to its 32 bytes (RFC 8410).
const PRIVATE_KEY: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// Returns a private key as openssl reads it.
fn private_pem(seed: &[u8; 32]) -> String {
    let key = STANDARD.encode([&PRIVATE_KEY[..], seed].concat());
    format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n")
}

/// Creates a file that does not exist yet.
fn create(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(content))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The collector's port where the URL has none.
const PORT: u16 = 8440;

/// Returns the host of a URL, and the port that it names.
fn host_and_port(url: &str) -> (&str, Option<u16>) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let split = authority.rsplit_once(':');
    let split = split.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    split.map_or((authority, None), |(host, port)| (host, Some(port)))
}

fn checklist(app: &str, out: &Path, url: &str, token: &str, public: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let out = out.display();
    let is_plain = url.starts_with("http://");
    let (host, named_port) = host_and_port(url);
    let port = named_port.unwrap_or(PORT);
    let apps_port = named_port.unwrap_or(if is_plain { 80 } else { 443 });
    let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    let listen = match host {
        "[::1]" => host,
        // An emulator reaches its machine's 127.0.0.1 at 10.0.2.2.
        "localhost" | "127.0.0.1" | "10.0.2.2" => "127.0.0.1",
        _ => "0.0.0.0",
    };
    let tls = if is_plain { "" } else { " \\\n        --tls-cert chain.pem --tls-key tls-key.pem" };
    let mut text = format!(
        "wrote {TOKENS}, {KEY}, {PUBLIC_KEY}, {REMOTE} and {SIGNATURE} to {out}

In the app's build.gradle.kts:

    implementation(\"dev.tracetee:tracetee:{version}\")

In the app's manifest, below <application>:

    <meta-data android:name=\"dev.tracetee.COLLECTOR_URL\" android:value=\"{url}\" />
    <meta-data android:name=\"dev.tracetee.TOKEN\" android:value=\"{token}\" />
    <meta-data android:name=\"dev.tracetee.PUBLIC_KEY\" android:value=\"{public}\" />

On the server:

    tracetee collect --listen {listen}:{port} --store store --token-file {out}/{TOKENS} \\
        --config {out}/{REMOTE}{tls}

Read the reports at {url}/: the password is the token of {out}/{TOKENS} that has \"read\" behind it. Prometheus needs the one with
\"metrics\" for {url}/metrics.

With each release, for the names that R8 has shortened:

    tracetee store mapping upload mapping.txt --app {app} --version VERSION --url {url} --token-file {out}/{TOKENS}
"
    );
    if named_port.is_none() {
        let _ = writeln!(
            text,
            "\nThe URL has no port, so apps connect to port {apps_port}: let a proxy forward it to port {port}."
        );
    }
    if is_plain && listen == "0.0.0.0" {
        text.push_str("\nhttp:// is for trials: others on the network can read the tokens. Devices of users need https://.\n");
    }
    if is_local && is_plain {
        let _ = write!(
            text,
            "
For a phone at this machine: adb reverse tcp:{apps_port} tcp:{port}, and android:usesCleartextTraffic=\"true\" in the debug
build's manifest.
"
        );
    }
    let _ = write!(
        text,
        "
After a change of {REMOTE}, raise its \"seq\", sign it and check both:

    openssl pkeyutl -sign -rawin -inkey {out}/{KEY} -in {out}/{REMOTE} -out {out}/{SIGNATURE}
    tracetee config check {out}/{REMOTE} --public-key {out}/{PUBLIC_KEY}

Copy {out}/{SERVER} to the server. Keep {KEY} where only you can read it, and not on the server: it controls what your apps
record.
"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_compact::{PublicKey, Signature};
    use std::os::unix::fs::PermissionsExt;
    use tracetee_server::Right;

    fn run(out: &Path, app: &str, url: &str) -> Result<()> {
        init(&InitArgs { app: app.to_owned(), url: url.to_owned(), output: out.to_owned() })
    }

    #[test]
    fn the_agents_check_accepts_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("new");
        run(&out, "com.example.app", "https://traces.example.com/").unwrap();
        let read = |name: &str| std::fs::read(out.join(name)).unwrap();
        let public = String::from_utf8(read(PUBLIC_KEY)).unwrap();
        let bytes = hex::decode(public.trim()).unwrap();
        let key = PublicKey::from_slice(&bytes).unwrap();
        let signature = Signature::from_slice(&read(SIGNATURE)).unwrap();
        assert!(key.verify(read(REMOTE), &signature).is_ok());
        assert_eq!(remote_config::parse(&read(REMOTE)).unwrap().warnings, Vec::<String>::new());
        tracetee_server::Tokens::read(&out.join(TOKENS)).unwrap();
        let tokens = out.join(TOKENS);
        let first = |right| tracetee_server::first_token(&tokens, right, None).unwrap().1;
        let rights = [Right::Send, Right::Mappings, Right::Read, Right::Metrics];
        let tokens: std::collections::BTreeSet<_> = rights.map(first).into();
        assert_eq!(tokens.len(), 4);
        let mut served: Vec<_> = std::fs::read_dir(out.join(SERVER))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        served.sort();
        assert_eq!(
            served,
            ["remote.json", "remote.json.sig", "tokens"],
            "the key is not among them"
        );
        for secret in [KEY, TOKENS] {
            let mode = std::fs::metadata(out.join(secret)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{secret}");
        }
    }

    #[test]
    fn the_collector_listens_where_the_url_leads() {
        for (url, listen, forwarded) in [
            ("https://traces.example.com", "0.0.0.0:8440", Some("port 443")),
            ("https://traces.example.com:9444/path", "0.0.0.0:9444", None),
            ("https://localhost:9444", "127.0.0.1:9444", None),
            ("http://127.0.0.1:8440", "127.0.0.1:8440", None),
            ("http://10.0.2.2:8441", "127.0.0.1:8441", None),
            ("http://[::1]:9000", "[::1]:9000", None),
            ("http://[2001:db8::1]", "0.0.0.0:8440", Some("port 80")),
            ("http://host", "0.0.0.0:8440", Some("port 80")),
        ] {
            let text = checklist("com.example", Path::new("new"), url, "token", "key");
            assert!(text.contains(&format!("collect --listen {listen} ")), "{url}: {text}");
            let said = text.contains("has no port");
            assert_eq!(said, forwarded.is_some_and(|port| text.contains(port)), "{url}: {text}");
            let is_open = url.starts_with("http:") && listen.starts_with("0.0.0.0");
            assert_eq!(text.contains("for trials"), is_open, "{url}: {text}");
            let is_reversed =
                text.contains(&format!("adb reverse tcp:{0} tcp:{0}", &listen[listen.len() - 4..]));
            let is_local = ["http://127.0.0.1", "http://[::1]"];
            assert_eq!(is_reversed, is_local.iter().any(|begin| url.starts_with(begin)), "{url}");
        }
    }

    #[test]
    fn nothing_is_overwritten_and_wrong_arguments_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let refused = |app: &str, url: &str| run(out, app, url).unwrap_err().to_string();
        assert!(refused("two words", "https://a").contains("application id"));
        assert!(refused("com.example", "ftp://a").contains("expected https://HOST"));
        assert!(refused("com.example", "https://").contains("expected https://HOST"));
        assert_eq!(std::fs::read_dir(out).unwrap().count(), 0, "nothing was written");
        run(out, "com.example", "http://127.0.0.1:8440").unwrap();
        let key = std::fs::read(out.join(KEY)).unwrap();
        assert!(refused("com.example", "https://a").contains("exists"));
        assert_eq!(std::fs::read(out.join(KEY)).unwrap(), key);
    }
}

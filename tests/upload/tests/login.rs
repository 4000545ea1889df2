//! The report page behind Debian's nginx with its default `proxy_params`: a login by token with a session, a login of the proxy's own
//! with oauth2-proxy's headers (a stand-in: nginx sends them), and what nobody may see.

use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests_upload::collector::{Collector, TOKEN, run};
use tracetee_tests_upload::servers::{Server, free_port, server};

const READER: &str = "a-token-that-reads-com.example";
const OTHER: &str = "a-token-that-reads-com.other";

/// Two servers of nginx: Debian's block for a proxy, and one that logs users in by itself and names them as oauth2-proxy does.
fn nginx(directory: &Path, proxy_params: &Path, ports: [u16; 2], upstream: &str) -> String {
    let [plain, named] = ports;
    let (own, proxy_params) = (directory.display(), proxy_params.display());
    format!(
        "daemon off; master_process off; error_log {own}/nginx.log; pid {own}/nginx.pid; events {{}}\n\
         http {{\n  access_log off;\n  client_body_temp_path {own}/1; proxy_temp_path {own}/2; fastcgi_temp_path {own}/3;\n  \
         uwsgi_temp_path {own}/4; scgi_temp_path {own}/5;\n  \
         server {{ listen 127.0.0.1:{plain}; location / {{ proxy_pass {upstream}; include {proxy_params}; }} }}\n  \
         server {{ listen 127.0.0.1:{named}; location / {{ proxy_pass {upstream}; include {proxy_params};\n    \
         proxy_set_header X-Forwarded-User $arg_as; proxy_set_header X-Forwarded-Email \"$arg_as@example.com\";\n    \
         proxy_set_header X-Forwarded-Groups team; }} }}\n}}\n"
    )
}

/// Asks as a browser does, with curl. Returns the status, and the answer with its headers.
fn curl(url: &str, options: &[&str]) -> (u16, String) {
    let text = run(Command::new("curl")
        .args(["--silent", "--include", "--max-time", "20", url])
        .args(options));
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    (status, text)
}

fn line<'a>(answer: &'a str, name: &str) -> &'a str {
    let mut lines = answer.lines();
    let line = lines.find(|line| line.to_lowercase().starts_with(&format!("{name}: ")));
    line.unwrap_or_default().split_once(": ").unwrap_or_default().1.trim()
}

#[test]
fn people_log_in_by_token_or_by_their_proxy_and_see_their_apps() {
    let Some(program) = server("usr/sbin/nginx") else { return };
    let directory = TempDir::new().unwrap();
    let digest = run(Command::new("sh").args(["-c", &format!("printf %s {READER} | sha256sum")]));
    let digest = digest.split(' ').next().unwrap();
    let tokens = format!(
        "com.example {TOKEN}\ncom.example sha256:{digest} read\ncom.other {OTHER} read\ncom.example user:ann read\n"
    );
    fs::write(directory.path().join("tokens"), &tokens).unwrap();
    let page = format!("127.0.0.1:{}", free_port());
    let collector = Collector::start_in(
        directory,
        &[
            "--token-file",
            "tokens",
            "--page",
            &page,
            "--trusted-proxy",
            "127.0.0.1",
            "--page-user-header",
            "X-Forwarded-User",
        ],
    );
    collector.simulate(3, 10, &["--token-file", "tokens"]);
    let files = collector.files("raw");
    let capture = files.iter().find(|path| path.extension().is_some_and(|of| of == "zst")).unwrap();
    let id = capture.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();

    let own = TempDir::new().unwrap();
    let ports = [free_port(), free_port()];
    let proxy_params = program.ancestors().nth(3).unwrap().join("etc/nginx/proxy_params");
    let text = nginx(own.path(), &proxy_params, ports, &format!("http://{page}"));
    fs::write(own.path().join("nginx.conf"), text).unwrap();
    let configuration = own.path().join("nginx.conf");
    let arguments =
        ["-p", own.path().to_str().unwrap(), "-c", configuration.to_str().unwrap(), "-e", "stderr"];
    let _nginx = Server::start(&program, &arguments, own.path());
    let [plain, named] = ports.map(|port| format!("http://127.0.0.1:{port}"));
    let is_up = |url: &str| {
        Command::new("curl")
            .args(["--silent", "--output", "/dev/null", url])
            .status()
            .unwrap()
            .success()
    };
    for _ in 0..200 {
        if is_up(&plain) && is_up(&named) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(is_up(&named), "{}", fs::read_to_string(own.path().join("server.log")).unwrap());

    // Nobody is let in without a login; a browser is led to it, a program has 401. A device's token does not read.
    let html = ["--header", "Accept: text/html"];
    let (status, answer) = curl(&format!("{plain}/?since=2026-01-01"), &html);
    assert_eq!(
        (status, line(&answer, "location")),
        (303, "/login?next=/%3Fsince%3D2026-01-01"),
        "{answer}"
    );
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let json = format!("{plain}/report.json");
    let status = |options: &[&str]| curl(&json, options).0;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&["--header", &bearer(TOKEN)]), 401);
    assert_eq!(status(&["--cookie", "tracetee_session=0"]), 401);
    // Each sees its apps, also under the address of a capture.
    let see = |options: &[&str]| {
        let (status, answer) = curl(&json, options);
        assert_eq!(status, 200, "{answer}");
        let capture = curl(&format!("{plain}/captures/{id}"), options).0;
        (answer.contains("\"app\":\"com.example\""), capture)
    };
    assert_eq!(see(&["--header", &bearer(READER)]), (true, 200));
    assert_eq!(see(&["--header", &bearer(OTHER)]), (false, 404));
    assert_eq!(curl(&format!("{json}?app=com.example"), &["--header", &bearer(OTHER)]).0, 404);

    // A session of a browser.
    let log_in = |token: &str, options: &[&str]| {
        let fields = format!("token={token}&next=/%3Fsince%3D2026-01-01");
        curl(&format!("{plain}/login"), &[&["--data", &fields], options].concat())
    };
    assert_eq!(log_in(TOKEN, &[]).0, 401);
    assert_eq!(log_in(READER, &["--header", "Sec-Fetch-Site: cross-site"]).0, 403);
    let (code, answer) = log_in(READER, &["--header", "Sec-Fetch-Site: same-origin"]);
    assert_eq!((code, line(&answer, "location")), (303, "/?since=2026-01-01"), "{answer}");
    let cookie = line(&answer, "set-cookie").to_owned();
    assert!(cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax"), "{cookie}");
    let session = cookie.split(';').next().unwrap();
    assert_eq!(see(&["--cookie", session]), (true, 200));
    let (_, shown) = curl(&plain, &["--cookie", session]);
    assert!(shown.contains("text/html") && shown.contains("com.example"));
    // A session has a control that ends it; a token has nothing to end.
    let log_out = "<form method=\"post\" action=\"/logout\">";
    assert!(shown.contains(log_out), "{shown}");
    assert!(!curl(&plain, &["--header", &bearer(READER)]).1.contains(log_out));

    // Users whom the proxy names: one has a line, one has none; without a name the token decides. Nobody names one past the proxy's
    // own header.
    let as_user =
        |user: &str, options: &[&str]| curl(&format!("{named}/report.json?as={user}"), options).0;
    assert_eq!((as_user("ann", &[]), as_user("eve", &[]), as_user("", &[])), (200, 403, 401));
    assert_eq!(as_user("eve", &["--header", "X-Forwarded-User: ann"]), 403);

    // Sessions end with the logout, and with their token.
    let (_, answer) = log_in(READER, &[]);
    let second = line(&answer, "set-cookie").split(';').next().unwrap().to_owned();
    assert_eq!(
        curl(&format!("{plain}/logout"), &["--request", "POST", "--cookie", &second]).0,
        303
    );
    assert_eq!(status(&["--cookie", &second]), 401);
    assert_eq!(status(&["--cookie", session]), 200);
    fs::write(collector.directory.path().join("tokens"), tokens.replace(digest, &"0".repeat(64)))
        .unwrap();
    run(Command::new("kill").args(["-HUP", &collector.process.id().to_string()]));
    for _ in 0..500 {
        if collector.log().contains("read the token file") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(status(&["--cookie", session]), 401);
}

#[test]
fn a_name_from_an_address_that_is_no_proxy_s_is_not_believed() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("tokens"), format!("com.example {TOKEN}\n* user:* read\n"))
        .unwrap();
    let page = format!("127.0.0.1:{}", free_port());
    let options = [
        "--token-file",
        "tokens",
        "--page",
        &page,
        "--page-user-header",
        "X-Forwarded-User",
        "--trusted-proxy",
    ];
    let ask = |proxy: &str| {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("tokens"), format!("com.example {TOKEN}\n* user:* read\n"))
            .unwrap();
        let _collector = Collector::start_in(directory, &[&options[..], &[proxy]].concat());
        curl(&format!("http://{page}/report.json"), &["--header", "X-Forwarded-User: ann"]).0
    };
    assert_eq!(ask("192.0.2.1"), 401);
    assert_eq!(ask("127.0.0.1"), 200);
    // A page for everybody needs somebody who may read.
    let refused = Command::new(tracetee_tests::tracetee())
        .args(["collect", "--listen", "127.0.0.1:0", "--store", "s", "--page", "0.0.0.0:0"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = tracetee_tests::stderr(&refused);
    assert!(!refused.status.success() && said.contains("add a line APP TOKEN read"), "{said}");
}

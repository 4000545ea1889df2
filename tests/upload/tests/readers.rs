//! Readers of reports and metrics: tokens as bearer and as the password of HTTP Basic; Debian's nginx with the configuration of
//! `docs/ACCESS.md`, below a path, before a page in Chromium; users whom a proxy names; and what nobody may see.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_tests::root;
use tracetee_tests::tools::{chromium, rendered};
use tracetee_tests_upload::collector::{Collector, METRICS, TOKEN, run};
use tracetee_tests_upload::servers::{Server, free_port, server};

const READER: &str = "a-token-that-reads-com.example";
const OTHER: &str = "a-token-that-reads-com.other";
const ADMIN: &str = "a-token-that-reads-all-apps";

/// Asks as a browser does, with curl. Returns the status, and the answer with its headers.
fn curl(url: &str, options: &[&str]) -> (u16, String) {
    let text = run(Command::new("curl")
        .args(["--silent", "--include", "--max-time", "20", url])
        .args(options));
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    (status, text)
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

/// The block of a language in the collector's documentation that has a word.
fn documented(language: &str, word: &str) -> String {
    let text = fs::read_to_string(root().join("docs/ACCESS.md")).unwrap();
    let begin = format!("```{language}\n");
    let mut blocks = text.split(&begin).skip(1).filter_map(|rest| rest.split_once("\n```"));
    blocks.find(|(block, _)| block.contains(word)).unwrap().0.to_owned()
}

/// nginx with the documented block, and with one that has the user's name from the address, as oauth2-proxy has it from a login.
fn nginx(directory: &Path, ports: [u16; 2], upstream: &str) -> String {
    let [plain, named] = ports;
    let own = directory.display();
    let documented = documented("nginx", "location /tracetee/");
    let documented = documented.replace("127.0.0.1:8440", upstream);
    assert!(documented.contains(upstream) && documented.contains("X-Forwarded-User"));
    let of_proxy = documented.replace("X-Forwarded-User \"\"", "X-Forwarded-User $arg_as");
    assert_ne!(documented, of_proxy);
    format!(
        "daemon off; master_process off; error_log {own}/nginx.log; pid {own}/nginx.pid; events {{}}\n\
         http {{\n  access_log off;\n  client_body_temp_path {own}/1; proxy_temp_path {own}/2; fastcgi_temp_path {own}/3;\n  \
         uwsgi_temp_path {own}/4; scgi_temp_path {own}/5;\n  \
         server {{ listen 127.0.0.1:{plain};\n{documented}\n  }}\n  server {{ listen 127.0.0.1:{named};\n{of_proxy}\n  }}\n}}\n"
    )
}

/// A collector with a small fleet, and the id of a capture.
fn collector(tokens: &str) -> (Collector, String) {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("tokens"), tokens).unwrap();
    let proxy = ["--trusted-proxy", "127.0.0.1", "--page-user-header", "X-Forwarded-User"];
    let collector =
        Collector::start_in(directory, &[&["--token-file", "tokens"], &proxy[..]].concat());
    collector.simulate(3, 10, &["--token-file", "tokens"]);
    let files = collector.files("raw");
    let capture = files
        .iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "zst"))
        .unwrap();
    let id = capture.file_name().unwrap().to_str().unwrap().split('.').next().unwrap().to_owned();
    (collector, id)
}

fn tokens() -> String {
    let digest = run(Command::new("sh").args(["-c", &format!("printf %s {READER} | sha256sum")]));
    let digest = digest.split(' ').next().unwrap();
    format!(
        "com.example {TOKEN}\ncom.example sha256:{digest} read\ncom.other {OTHER} read\ncom.example user:ann read\n\
         * {METRICS} metrics\n* {ADMIN} read\n"
    )
}

/// Replaces the token file, and waits until the collector has read it.
fn reload(collector: &Collector, tokens: &str) {
    let read = || collector.log().matches("read the token file").count();
    let before = read();
    fs::write(collector.directory.path().join("tokens"), tokens).unwrap();
    run(Command::new("kill").args(["-HUP", &collector.process.id().to_string()]));
    while read() == before {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_token_is_a_bearer_or_a_password_and_shows_its_apps() {
    let (collector, id) = collector(&tokens());
    let page = &collector.url;
    let json = format!("{page}/report.json");
    let status = |options: &[&str]| curl(&json, options).0;
    // Nobody is let in without a token; a browser asks for one. A device's token does not read.
    let (code, answer) = curl(page, &["--header", "Accept: text/html"]);
    assert_eq!(code, 401);
    let challenge = answer.lines().find(|line| line.starts_with("www-authenticate:"));
    assert_eq!(challenge, Some("www-authenticate: Basic realm=\"tracetee\", charset=\"UTF-8\""));
    assert_eq!(status(&["--header", &bearer(TOKEN)]), 401);
    assert_eq!(status(&["--user", &format!("ann:{METRICS}")]), 401);
    let see = |options: &[&str]| {
        let (status, answer) = curl(&json, options);
        assert_eq!(status, 200, "{answer}");
        let capture = curl(&format!("{page}/captures/{id}"), options).0;
        (answer.contains("\"app\":\"com.example\""), capture)
    };
    for options in [["--header", &bearer(READER)], ["--user", &format!("any:{READER}")]] {
        assert_eq!(see(&options), (true, 200));
        assert_eq!(curl(&format!("{page}/login"), &options).0, 404);
    }
    assert_eq!(see(&["--user", &format!("any:{OTHER}")]), (false, 404));
    assert_eq!(curl(&format!("{json}?app=com.example"), &["--header", &bearer(OTHER)]).0, 404);
    let two = ["--header", &bearer(READER), "--header", &bearer(READER)];
    assert_eq!(status(&two), 401, "one token of two");
    assert!(!collector.log().contains(READER) && !collector.log().contains(OTHER));
    // No cache keeps an answer, nor does a browser guess its type.
    let capture = format!("captures/{id}");
    let pages = ["", "report.json", "report.md", &capture, &format!("{capture}.ftrace.zst")];
    let read = pages.map(|path| (format!("{page}/{path}"), READER));
    for (url, token) in read.into_iter().chain([(format!("{}/metrics", collector.url), METRICS)]) {
        for (authorization, expected) in [(bearer(token), 200), (bearer("other"), 401)] {
            let (status, head) = curl(&url, &["--head", "--header", &authorization]);
            assert_eq!(status, expected, "{url}");
            let has = |line: &str| head.lines().any(|header| header == line);
            assert!(
                has("cache-control: no-store") && has("x-content-type-options: nosniff"),
                "{head}"
            );
        }
    }
}

#[test]
fn a_capture_is_of_its_token_s_app_whatever_its_text_says() {
    let (collector, _) = collector(&tokens());
    let id = "0190f5a6-7c00-7000-8000-0000000000aa";
    let text = "# tracer: nop\n# tracetee: {\"app\":\"com.text\",\"version_name\":\"of the text\"}\n \
                app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|Choreographer#doFrame\n \
                app-5 (5) [000] ...1 1.030000: tracing_mark_write: E|5\n";
    let body = zstd::encode_all(text.as_bytes(), 1).unwrap();
    assert_eq!(collector.put(&format!("/v1/captures/{id}"), &[], &body), 201);
    collector.settle();
    let page = format!("{}/captures/{id}", collector.url);
    let (status, text) = curl(&page, &["--header", &bearer(READER)]);
    assert!(status == 200 && text.contains("of the text") && !text.contains("com.text"), "{text}");
}

#[test]
fn a_token_that_reads_is_not_taken_where_others_on_the_way_read_it() {
    // No packet is sent: the system names the address from which one would come.
    let own = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Some(own) = own.ok().map(|own| own.ip()).filter(|own| !own.is_loopback()) else {
        tracetee_tests::skip("this machine has loopback addresses only");
        return;
    };
    let ask = |more: &[&str]| {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("tokens"), tokens()).unwrap();
        let port = free_port();
        let page = format!("0.0.0.0:{port}");
        let options = [&["--token-file", "tokens", "--page", &page], more].concat();
        let _collector = Collector::start_in(directory, &options);
        let with = |host: &str| {
            curl(&format!("http://{host}:{port}/report.json"), &["--user", &format!("a:{READER}")])
        };
        let ((elsewhere, answer), (here, _)) = (with(&own.to_string()), with("127.0.0.1"));
        assert!(elsewhere != 403 || !answer.contains("www-authenticate"), "{answer}");
        (elsewhere, here)
    };
    assert_eq!(ask(&[]), (403, 200));
    assert_eq!(ask(&["--trusted-proxy", &own.to_string()]), (200, 200));
}

#[test]
fn metrics_need_a_token_of_all_apps() {
    let (collector, _) = collector(&tokens());
    let status =
        |token: &str| curl(&format!("{}/metrics", collector.url), &["--header", &bearer(token)]).0;
    for token in [TOKEN, READER, OTHER, "unknown"] {
        assert_eq!(status(token), 401, "{token}");
    }
    assert_eq!((status(METRICS), status(ADMIN)), (200, 200));
    assert_eq!(
        curl(&format!("{}/metrics", collector.url), &["--user", &format!("p:{METRICS}")]).0,
        200
    );
}

#[test]
fn the_last_reader_that_goes_opens_nothing() {
    let (collector, id) = collector(&tokens());
    let none = format!("com.example {TOKEN}\n* {METRICS} metrics\n");
    let paths = [
        "/",
        "/report.json",
        "/report.md",
        &format!("/captures/{id}"),
        &format!("/captures/{id}/timeline"),
    ];
    let statuses = |collector: &Collector, options: &[&str]| {
        paths.map(|path| curl(&format!("{}{path}", collector.url), options).0)
    };
    let of_reader = ["--user", &format!("any:{READER}")];
    assert_eq!(statuses(&collector, &of_reader), [200; 5]);
    reload(&collector, &none);
    assert_eq!((statuses(&collector, &[]), statuses(&collector, &of_reader)), ([401; 5], [401; 5]));
    // The same answers after a start, also of a page at an address of its own.
    let page = format!("127.0.0.1:{}", free_port());
    let options = ["--token-file", "tokens", "--page", &page];
    let fresh = Collector::start_in(collector.into_directory(), &options[..2]);
    assert_eq!(statuses(&fresh, &[]), [401; 5]);
    let _apart = Collector::start_in(fresh.into_directory(), &options);
    assert_eq!(curl(&format!("http://{page}/report.json"), &[]).0, 401);
}

#[test]
fn guesses_of_tokens_have_one_line_a_minute() {
    let (collector, _) = collector(&tokens());
    let urls: Vec<String> = ["/", "/report.json", "/metrics"]
        .iter()
        .cycle()
        .take(300)
        .map(|path| format!("{}{path}", collector.url))
        .collect();
    let answers = run(Command::new("curl")
        .args(["--silent", "--write-out", "%{http_code}\n"])
        .args(["--header", &bearer("a-guess-of-a-token")])
        .args(urls.iter().flat_map(|url| ["--output", "/dev/null", url])));
    assert_eq!(answers, "401\n".repeat(300));
    let log = collector.log_with("refused a token");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("refused a token")).collect();
    assert!(lines.len() == 1 && lines[0].contains("client=\"127.0.0.1\""), "{log}");
    assert!(!log.contains("a-guess-of-a-token"), "{log}");
    let count = collector.metrics().lines().any(|line| line == "tracetee_unauthorised_total 300");
    assert!(count, "{}", collector.metrics());
}

#[test]
fn a_page_of_another_site_may_not_write() {
    let (collector, id) = collector(&tokens());
    let url = format!("{}/v1/losses/{id}", collector.url);
    let write = |origins: &[&str]| {
        let mut options = vec!["--request", "PUT", "--data", "{}", "--header"];
        let bearer = bearer(TOKEN);
        options.push(&bearer);
        options.extend(origins.iter().flat_map(|origin| ["--header", origin]));
        curl(&url, &options).0
    };
    let own = format!("Origin: {}", collector.url);
    for foreign in ["Origin: https://evil.example", "Origin: null", "Origin: http://127.0.0.1"] {
        assert_eq!(write(&[foreign]), 403, "{foreign}");
    }
    assert_eq!((write(&[&own]), write(&[])), (201, 412));
    assert_eq!(write(&[&own, "Origin: https://evil.example"]), 403);
}

#[test]
fn a_page_below_the_path_of_nginx_is_read_with_a_token_or_as_a_user() {
    let Some(program) = server("usr/sbin/nginx") else { return };
    let (collector, id) = collector(&tokens());
    let own = TempDir::new().unwrap();
    let ports = [free_port(), free_port()];
    let upstream = collector.url.trim_start_matches("http://");
    fs::write(own.path().join("nginx.conf"), nginx(own.path(), ports, upstream)).unwrap();
    let configuration = own.path().join("nginx.conf");
    let arguments =
        ["-p", own.path().to_str().unwrap(), "-c", configuration.to_str().unwrap(), "-e", "stderr"];
    let _nginx = Server::start(&program, &arguments, own.path());
    let [plain, named] = ports.map(|port| format!("http://127.0.0.1:{port}/tracetee/"));
    let mut waits = Command::new("curl");
    waits.args([
        "--silent",
        "--output",
        "/dev/null",
        "--retry",
        "60",
        "--retry-connrefused",
        "--retry-delay",
        "1",
    ]);
    run(waits.args([&named, "--output", "/dev/null", &plain]));

    let password = ["--user", &format!("any:{READER}")];
    for path in [
        "",
        "report.json",
        "report.md",
        &format!("captures/{id}"),
        &format!("captures/{id}/timeline"),
    ] {
        let url = format!("{plain}{path}");
        assert_eq!((curl(&url, &[]).0, curl(&url, &password).0), (401, 200), "{path}");
    }
    assert_eq!(curl(plain.trim_end_matches('/'), &password).0, 301, "to the address with a slash");
    // Users whom the proxy names: one has a line, one has none; without a name the token decides. Nobody names one past the proxy's
    // own header.
    let as_user =
        |user: &str, options: &[&str]| curl(&format!("{named}report.json?as={user}"), options).0;
    assert_eq!((as_user("ann", &[]), as_user("eve", &[]), as_user("", &[])), (200, 403, 401));
    assert_eq!(as_user("eve", &["--header", "X-Forwarded-User: ann"]), 403);
    assert_eq!(curl(&format!("{plain}report.json"), &["--header", "X-Forwarded-User: ann"]).0, 401);

    // A browser finds its way from page to page.
    let Some(chromium) = chromium() else { return };
    let shown = |path: &str| {
        let user = format!("http://any:{READER}@");
        rendered(&chromium, &format!("{}{path}", plain.replace("http://", &user)))
    };
    let links = |page: &str| -> Vec<String> {
        let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split_once('"'));
        links.map(|(link, _)| link.to_owned()).collect()
    };
    let page = shown("");
    let is_capture = |link: &String| link.starts_with("captures/") && !link.contains("/timeline");
    let capture = links(&page).into_iter().find(is_capture);
    let capture = capture.unwrap_or_else(|| panic!("{page}"));
    for link in links(&page) {
        assert!(!link.starts_with('/'), "{link}");
    }
    assert_eq!(curl(&format!("{plain}{capture}"), &password).0, 200);
    let page = shown(&capture);
    let timeline = format!("{}/timeline", capture.trim_start_matches("captures/"));
    assert!(page.contains(&format!("\"{timeline}\"")) && !page.contains("\"/captures/"), "{page}");
    assert_eq!(curl(&format!("{plain}captures/{timeline}"), &password).0, 200);
}

#[test]
fn a_name_is_believed_from_a_proxy_only_and_if_there_is_one() {
    let tokens = format!("com.example {TOKEN}\n* user:* read\n");
    let ask = |proxy: &str, headers: &[&str]| {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("tokens"), &tokens).unwrap();
        let options = ["--token-file", "tokens", "--page-user-header", "X-Forwarded-User"];
        let collector =
            Collector::start_in(directory, &[&options[..], &["--trusted-proxy", proxy]].concat());
        let headers: Vec<_> = headers.iter().flat_map(|header| ["--header", header]).collect();
        curl(&format!("{}/report.json", collector.url), &headers).0
    };
    let ann = "X-Forwarded-User: ann";
    assert_eq!(ask("192.0.2.1", &[ann]), 401);
    assert_eq!(ask("127.0.0.1", &[ann]), 200);
    assert_eq!(ask("127.0.0.1", &[ann, "X-Forwarded-User: eve"]), 400);
    // A page for everybody needs tokens.
    let directory = TempDir::new().unwrap();
    let refused = Command::new(tracetee_tests::tracetee())
        .args(["collect", "--listen", "127.0.0.1:0", "--store", "s", "--page", "0.0.0.0:0"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = tracetee_tests::stderr(&refused);
    assert!(!refused.status.success() && said.contains("pass --token-file with a line"), "{said}");
}

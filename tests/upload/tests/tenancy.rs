//! Two apps of one collector: no byte of one in any answer to the other, whatever is asked and sent.
//!
//! Each app's captures have a mark in the names that requests say, too (app, version, screen), and a secret in all others.
//! Requests are generated: each route, method, right, relation of ids.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_tests_upload::collector::{Collector, file};
use tracetee_tests_upload::s3::Bucket;
use tracetee_uploader::Response;

/// The routes of the collector; `ID` and `APP` are replaced. The test counts those of the source, so that a new one needs a
/// row.
const ROUTES: [&str; 16] = [
    "/",
    "/report.json",
    "/report.md",
    "/captures/ID",
    "/captures/ID/timeline",
    "/mcp",
    "/v1/captures/ID",
    "/v1/ledgers/ID",
    "/v1/losses/ID",
    "/v1/mappings/APP/1",
    "/v1/config",
    "/v1/openapi.json",
    "/v1/report.schema.json",
    "/healthz",
    "/readyz",
    "/metrics",
];
const QUERIES: [&str; 6] =
    ["", "?app=APP", "?app=APP&version=VER", "?screen=SCREEN", "?ver=VER&app=", "?app=*"];
const REQUESTS: usize = 5_000;

/// An app: its name, the mark in names that requests say, the secret in all others, and the id of its capture.
struct App {
    name: &'static str,
    mark: &'static str,
    secret: &'static str,
    id: &'static str,
}

const APPS: [App; 2] = [
    App {
        name: "com.example.victim",
        mark: "MarkOfA",
        secret: "SecretOfA",
        id: "019a1fd7-2955-7cfa-a44a-a7427d9591d5",
    },
    App {
        name: "com.example.other",
        mark: "MarkOfB",
        secret: "SecretOfB",
        id: "019a1fd7-2955-7cfb-a44a-b7427d9591d5",
    },
];

impl App {
    fn token(&self, right: &str) -> String {
        format!("{}-{right}-0123456789abcdef", self.name)
    }

    /// A capture of the app.
    fn capture(&self) -> Vec<u8> {
        let Self { mark, secret, .. } = self;
        let line = |us: u32, payload: &str| {
            format!("{secret}-5 (5) [000] ...1 1.{us:06}: tracing_mark_write: {payload}\n")
        };
        let lines = [
            line(0, &format!("S|5|tracetee.screen:{mark}Screen|1")),
            line(100, "B|5|Choreographer#doFrame 1"),
            line(2_000, &format!("B|5|{secret}.section")),
            line(62_000, "E|5"),
            line(75_000, "E|5"),
        ];
        let text = format!("# tracer: nop\n{}", lines.concat());
        zstd::bulk::compress(text.as_bytes(), 1).unwrap()
    }

    fn meta(&self, app: &str, window: &str) -> String {
        let Self { mark, secret, .. } = self;
        let meta = json!({
            "app": app, "version_name": format!("{mark}Version"), "install_id": format!("{secret}Device"),
            "window": window, "model": format!("{secret}Model"), "label": format!("{secret}Label"),
        });
        URL_SAFE_NO_PAD.encode(meta.to_string())
    }

    /// A loss report that claims to be of an app.
    fn losses(&self, app: &str) -> Vec<u8> {
        let secret = self.secret;
        let lost = json!([{"id": self.id, "label": format!("{secret}Window"), "reason": format!("{secret}Reason")}]);
        json!({"app": app, "install_id": format!("{secret}Device"), "lost": lost})
            .to_string()
            .into_bytes()
    }

    /// Sends a body as a capture with this id, which claims to be of `claimed`.
    fn put(
        &self,
        collector: &Collector,
        path: &str,
        claimed: &str,
        window: &str,
        body: &[u8],
    ) -> Response {
        let digest = format!("sha-256=:{}:", STANDARD.encode(hmac_sha256::Hash::hash(body)));
        let headers = [
            ("Authorization", &*format!("Bearer {}", self.token("upload"))),
            ("Content-Encoding", "zstd"),
            ("Content-Digest", &digest),
            ("X-Tracetee-Meta", &self.meta(claimed, window)),
            ("If-None-Match", "*"),
        ];
        collector.send("PUT", path, &headers, body)
    }

    fn get(&self, collector: &Collector, path: &str) -> Response {
        let bearer = format!("Bearer {}", self.token("read"));
        collector.send("GET", path, &[("Authorization", &bearer)], b"")
    }

    /// Returns the pages of the app's capture and its profile, as its reader sees them.
    fn pages(&self, collector: &Collector) -> Vec<Vec<u8>> {
        let paths = [format!("/captures/{}", self.id), format!("/captures/{}/timeline", self.id)];
        paths.map(|path| self.get(collector, &path).body).into()
    }
}

/// The id of the profile that belongs to a capture.
fn profile_of(id: &str) -> String {
    format!("{}8{}", &id[..14], &id[15..])
}

/// True if an answer has a text, also where its body is compressed.
fn says(answer: &Response, text: &str) -> bool {
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let unpacked = zstd::stream::decode_all(&*answer.body).unwrap_or_default();
    has(&answer.body) || has(&unpacked) || has(format!("{:?}", answer.headers).as_bytes())
}

/// A call of a tool of `/mcp`, about an app and an id.
fn question(numbers: &mut Numbers, about: &App, id: &str) -> Vec<u8> {
    let version = format!("{}Version", about.mark);
    let statement = numbers.pick(&[
        "SELECT * FROM captures",
        "SELECT * FROM cause_examples",
        "SELECT * FROM main.captures",
        "WITH captures AS (SELECT * FROM main.captures) SELECT * FROM captures",
        "SELECT c.app, r.* FROM capture_rollups c, reach r",
        "SELECT sql FROM sqlite_temp_schema",
    ]);
    let (name, arguments) = match numbers.below(5) {
        0 => ("apps", json!({})),
        1 => ("capture", json!({"id": id})),
        2 => ("frame", json!({"id": id, "frame": 1})),
        3 => ("query", json!({"sql": statement})),
        _ => {
            let name = numbers.pick(&["versions", "report", "causes", "devices", "compare"]);
            let versions = json!({"app": about.name, "from": version, "to": version});
            (name, if name == "compare" { versions } else { json!({"app": about.name}) })
        }
    };
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        .to_string()
        .into_bytes()
}

/// Numbers without a pattern, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// An id in one of the relations to another.
fn related(numbers: &mut Numbers, id: &str) -> String {
    match numbers.below(14) {
        0..4 => id.to_owned(),
        4..7 => profile_of(id),
        7 => id.to_uppercase(),
        8 => id.replace('-', ""),
        9 => id[..numbers.below(id.len())].to_owned(),
        10 => format!("{id}.ftrace.zst"),
        11 => format!("{}.ftrace.zst", profile_of(id)),
        12 => format!("..%2f{id}"),
        _ => format!("%7B{id}%7D"),
    }
}

fn tokens() -> (TempDir, String) {
    let directory = TempDir::new().unwrap();
    let lines = APPS.iter().flat_map(|app| {
        let rights = ["", "read", "mappings"];
        rights.map(|right| {
            let token = app.token(if right.is_empty() { "upload" } else { right });
            format!("{} {token} {right}\n", app.name)
        })
    });
    let path = file(directory.path(), "tokens", &lines.collect::<String>()).display().to_string();
    (directory, path)
}

fn wait_for(collector: &Collector, app: &App, id: &str) {
    for _ in 0..2000 {
        if app.get(collector, &format!("/captures/{id}")).status == 200 {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{id} does not come");
}

fn nothing_of_one_in_answers_to_the_other(collector: &Collector) {
    let [victim, other] = &APPS;
    for app in &APPS {
        let path = format!("/v1/captures/{}", app.id);
        assert_eq!(app.put(collector, &path, app.name, "jank", &app.capture()).status, 201);
        wait_for(collector, app, app.id);
        let pages = app.pages(collector);
        assert!(pages.iter().all(|page| String::from_utf8_lossy(page).contains(app.secret)));
    }
    let before = victim.pages(collector);
    // The other app takes the id of the victim's profile, of its capture, and of its loss report.
    let profile = profile_of(victim.id);
    for (id, window) in [(&*profile, "system_trace.jank"), (victim.id, "jank")] {
        let path = format!("/v1/captures/{id}");
        let answer = other.put(collector, &path, victim.name, window, &other.capture());
        assert_eq!(answer.status, 201, "another app's id is a free one");
        wait_for(collector, other, id);
        assert_eq!(victim.pages(collector), before, "after {id}");
    }
    for app in [other, victim] {
        let bearer = format!("Bearer {}", app.token("upload"));
        let path = format!("/v1/losses/{}", victim.id);
        let headers = [("Authorization", &*bearer)];
        let answer = collector.send("PUT", &path, &headers, &app.losses(victim.name));
        assert_eq!(answer.status, 201, "{}: another app's id is a free one", app.name);
    }
    let mut numbers = Numbers(7);
    for number in 0..REQUESTS {
        let (asks, about) = (&APPS[numbers.below(2)], &APPS[numbers.below(2)]);
        let foreign = APPS.iter().find(|app| app.name != asks.name).unwrap();
        let id = related(&mut numbers, about.id);
        let path = numbers.pick(&ROUTES).replace("ID", &id).replace("APP", about.name);
        let screen = format!("{}Screen", about.mark);
        let query = numbers.pick(&QUERIES).replace("APP", about.name).replace("SCREEN", &screen);
        let query = query.replace("VER", &format!("{}Version", about.mark));
        let method = numbers.pick(&["GET", "GET", "GET", "HEAD", "POST", "DELETE", "PUT"]);
        let method = if path == "/mcp" { "POST" } else { method };
        let mut asked = format!("{path}{query}");
        let answer = if method == "PUT" && path.starts_with("/v1/captures/") {
            let window = numbers.pick(&["jank", "system_trace.jank", "java_heap_dump.oom"]);
            // Half of the bodies are not captures.
            let body = if numbers.below(2) == 0 { other.capture() } else { b"no capture".to_vec() };
            other.put(collector, &path, about.name, window, &body)
        } else {
            let right = numbers.pick(&["read", "read", "upload", "mappings"]);
            let token = asks.token(right);
            let basic = format!("Basic {}", STANDARD.encode(format!("anybody:{token}")));
            let given = if numbers.below(4) == 0 { basic } else { format!("Bearer {token}") };
            let mut headers = vec![("Authorization", &*given), ("X-Tracetee-App", about.name)];
            if numbers.below(4) == 0 {
                headers.push(("Range", "bytes=0-10"));
            }
            let mut body = asks.losses(about.name);
            if path == "/mcp" {
                body = question(&mut numbers, about, &id);
                headers.push(("Content-Type", "application/json"));
                headers.push(("Accept", "application/json, text/event-stream"));
                asked += &String::from_utf8_lossy(&body);
            }
            collector.send(method, &format!("{path}{query}"), &headers, &body)
        };
        let is_other_s = method == "PUT" && path.starts_with("/v1/captures/");
        let foreign = if is_other_s { victim } else { foreign };
        // An answer may repeat what its request has said. No request says a secret.
        for word in [foreign.secret, foreign.mark, foreign.name] {
            assert!(
                asked.contains(word) || !says(&answer, word),
                "{number}: {} reads {word}: {method} {asked}: {}",
                asks.name,
                String::from_utf8_lossy(&answer.body)
            );
        }
        if is_other_s && answer.status == 201 {
            assert_eq!(victim.pages(collector), before, "{number}: after {method} {asked}");
        }
    }
    assert_eq!(victim.pages(collector), before);
}

#[test]
fn the_table_has_each_route_of_the_collector() {
    let sources = [
        include_str!("../../../collector/server/src/http/mod.rs"),
        include_str!("../../../collector/server/src/http/page.rs"),
    ];
    let count: usize = sources.iter().map(|source| source.matches(".route(").count()).sum();
    assert_eq!(count, ROUTES.len(), "a route has no row in ROUTES");
}

#[test]
fn no_answer_to_an_app_has_a_byte_of_another_one_s_directory() {
    let (_directory, path) = tokens();
    nothing_of_one_in_answers_to_the_other(&Collector::start(&["--token-file", &path]));
}

#[test]
fn no_answer_to_an_app_has_a_byte_of_another_one_s_bucket() {
    let (_directory, path) = tokens();
    let bucket = Bucket::default();
    nothing_of_one_in_answers_to_the_other(&bucket.collector(&["--token-file", &path]));
}

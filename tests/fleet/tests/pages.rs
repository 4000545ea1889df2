//! The report as people see it: in a browser, on the collector's page and as a file; with names that would
//! be markup if anybody let them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use tracetee_simulate::{Plan, PlannedDeath};
use tracetee_tests::tools::{chromium, rendered};
use tracetee_tests_fleet::today;
use tracetee_tests_upload::collector::{Collector, ID, put_capture};

const SCRIPT: &str = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>";

/// Measures the width of a page on a phone with 412 pixels.
fn width_on_a_phone(chromium: &Path, page: &Path) -> u32 {
    let phone = page.with_extension("phone.html");
    let script = "onload = () => setTimeout(() => {
        const page = frames[0].document;
        document.title = `${page.documentElement.dataset.drawn} ${page.documentElement.scrollWidth}`; }, 1000)";
    let frame = format!(
        "<script>{script}</script><iframe style='width:412px;height:900px;border:0' src='{}'></iframe>",
        page.file_name().unwrap().to_str().unwrap()
    );
    std::fs::write(&phone, frame).unwrap();
    let dom = rendered(chromium, &format!("file://{}", phone.display()));
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    let title = title.unwrap_or_else(|| panic!("no title: {dom}"));
    title.strip_prefix("yes ").unwrap_or_else(|| panic!("not drawn: {title}")).parse().unwrap()
}

/// A capture with a janky frame whose names are hostile.
fn hostile_capture() -> Vec<u8> {
    let about = json!({"id": ID, "app": "com.example", "window": SCRIPT, "why": SCRIPT, "pid": 5,
        "install_id": "d", "opens": "schedule", "version_name": SCRIPT});
    let mut text = format!("# tracer: nop\n# tracetee: {about}\n");
    for (us, payload) in [
        (0, format!("I|5|screen:{SCRIPT}")),
        (10, "B|5|Choreographer#doFrame 1".to_owned()),
        (20, format!("B|5|{SCRIPT}")),
        (90_000, "E|5".to_owned()),
        (90_010, "E|5".to_owned()),
    ] {
        text.push_str(&format!(
            "  app-5 (5) [000] ...1 1.{us:06}: tracing_mark_write: {payload}\n"
        ));
    }
    zstd::bulk::compress(text.as_bytes(), 1).unwrap()
}

#[test]
fn hostile_names_are_text_on_every_page() {
    let Some(chromium) = chromium() else { return };
    let collector = Collector::start(&[]);
    let meta: Value = json!({"app": "com.example", "install_id": "d"});
    let body = hostile_capture();
    assert_eq!(put_capture(&collector.url, ID, meta.as_object().unwrap(), &body), Some(201));
    collector.settle();
    let directory = collector.directory.path();
    std::fs::write(directory.join("one.ftrace.zst"), &body).unwrap();
    collector.tracetee(&["report", "one.ftrace.zst", "--format", "html", "-o", "one.html"]);
    collector.tracetee(&["report", "--store", "store", "--format", "html", "-o", "fleet.html"]);
    let page = |name: &str| format!("file://{}", directory.join(name).display());
    for address in [
        page("one.html"),
        page("fleet.html"),
        format!("{}/", collector.url),
        format!("{}/captures/{ID}", collector.url),
    ] {
        let dom = rendered(&chromium, &address);
        assert!(dom.contains("data-drawn=\"yes\""), "{address}: {}", &dom[..dom.len().min(2000)]);
        assert!(
            dom.contains("&lt;/script&gt;&lt;script&gt;document.title"),
            "{address}: it is shown"
        );
        assert!(!dom.contains("<title>owned"), "{address}");
        assert!(!dom.contains("<img"), "{address}");
    }
    let timeline = rendered(&chromium, &format!("{}/captures/{ID}/timeline", collector.url));
    assert!(timeline.contains("data-ready=\"yes\""), "{}", &timeline[..timeline.len().min(2000)]);
    assert!(!timeline.contains("<title>owned"));
    for name in ["one.html", "fleet.html"] {
        let width = width_on_a_phone(&chromium, &directory.join(name));
        assert!(
            (390..=412).contains(&width),
            "{name}: {width} pixels, with a scroll bar or without"
        );
        let text = std::fs::read_to_string(directory.join(name)).unwrap();
        let fetched = ["src=\"http", "href=\"http", "@import", "url(http"];
        assert!(
            fetched.iter().all(|source| !text.contains(source)),
            "{name} needs nothing from elsewhere"
        );
    }
}

#[test]
fn a_fleet_s_page_shows_what_is_so() {
    let Some(chromium) = chromium() else { return };
    let collector = Collector::start(&[]);
    let url = collector.url.clone();
    collector.simulate(120, 60, &["--truth", "truth"]);
    let dom = rendered(&chromium, &format!("{url}/?from=2.0&to=2.1"));
    for part in [
        "com.example.shop",
        "com.example.Cache.get held by com.example.Cache.put",
        "Feed.bind",
        "From 2.0 to 2.1",
        "Jank by day",
        "<svg",
        "captures/0",
        "hold the lock for less time in the thread that has it</td>",
    ] {
        assert!(dom.contains(part), "{part}");
    }
    // A new request of the page gives the result of the command, and contains the planted cause.
    let live = collector.send("GET", "/report.json?from=2.0&to=2.1", &[], b"");
    let live: Value = serde_json::from_slice(&live.body).unwrap();
    let told = collector.tracetee(&[
        "report",
        "--store",
        "store",
        "--compare",
        "2.0",
        "2.1",
        "--format",
        "json",
    ]);
    assert_eq!(live, serde_json::from_str::<Value>(&told).unwrap());
    let truth = std::fs::read_to_string(collector.directory.path().join("truth")).unwrap();
    let truth: Value = serde_json::from_str(&truth).unwrap();
    let app = &live["apps"][0];
    for cause in app["causes"].as_array().unwrap() {
        let name =
            format!("{}: {}", cause["cause"].as_str().unwrap(), cause["key"].as_str().unwrap());
        if let Some(counts) = truth["causes"].get(&name) {
            for field in ["devices", "captures", "frames", "self_ns"] {
                assert_eq!(cause[field], counts[field], "{name}: {field}");
            }
        }
    }
    let example = app["causes"][0]["examples"][0]["capture_id"].as_str().unwrap();
    let raw = collector.send("GET", &format!("/captures/{example}.ftrace.zst"), &[], b"");
    assert_eq!(raw.status, 200);
    let text = zstd::stream::decode_all(&*raw.body).unwrap();
    assert!(text.starts_with(b"# tracer: nop\n"));
    // A page in a file has the timelines of the causes' best examples inside.
    collector.tracetee(&["report", "--store", "store", "--format", "html", "-o", "fleet.html"]);
    let page = collector.directory.path().join("fleet.html");
    let in_file = std::fs::read_to_string(&page).unwrap();
    let data = in_file.split("type=\"application/json\">").nth(1).unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let firsts: BTreeSet<_> = data["report"]["apps"][0]["causes"].as_array().unwrap()[..10]
        .iter()
        .map(|cause| cause["examples"][0]["capture_id"].as_str().unwrap())
        .collect();
    let timelines = data["timelines"].as_object().unwrap();
    assert_eq!(timelines.keys().map(String::as_str).collect::<BTreeSet<_>>(), firsts);
    let packed = STANDARD.decode(timelines[example].as_str().unwrap()).unwrap();
    let mut timeline = String::new();
    flate2::read::GzDecoder::new(&*packed).read_to_string(&mut timeline).unwrap();
    assert!(timeline.contains("tracing_mark_write: B|") && timeline.contains("\"why\":{"));
    // Each cause leads to what it means, at the page's end.
    let script = "<script>
        const causes = [...document.querySelectorAll('td button[title^=\"The thread \"]')];
        const meanings = causes.map((button) => document.getElementById('meaning-' + button.textContent));
        causes[0].click();
        document.title = `${causes.length > 5} ${meanings.every(Boolean)} ${document.activeElement === meanings[0]}`;
        </script></body>";
    std::fs::write(&page, in_file.replace("</body>", script)).unwrap();
    let opened = rendered(&chromium, &format!("file://{}", page.display()));
    assert!(opened.contains("<title>true true true</title>"));
    assert!(opened.contains(
        "The thread waited for a lock that another thread held. What to do: hold the lock"
    ));
    // A stand-in for the browser's new window: a script's click opens none.
    let script = "<script>
        const other = {};
        window.open = () => other;
        [...document.querySelectorAll('button')].find((button) => button.textContent === 'timeline').click();
        const wait = setInterval(() => {
            if (!other.location) return;
            clearInterval(wait);
            document.title = other.location;
        }, 50);</script></body>";
    std::fs::write(&page, in_file.replace("</body>", script)).unwrap();
    let opened = rendered(&chromium, &format!("file://{}", page.display()));
    let opened = opened.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    assert!(
        opened.is_some_and(|address| address.starts_with("blob:") && address.contains("#cause=")),
        "{opened:?}"
    );

    // Its timeline opens at the frame that lost most by the cause, and runs under the page's policy.
    assert!(dom.contains(&format!("captures/{example}/timeline#cause=")), "{dom}");
    let cause = &app["causes"][0];
    let link = format!("{}|{}", cause["cause"].as_str().unwrap(), cause["key"].as_str().unwrap());
    let link: String = link.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let timeline = rendered(&chromium, &format!("{url}/captures/{example}/timeline#cause={link}"));
    for part in ["data-ready=\"yes\"", "past its deadline", "Critical path"] {
        assert!(timeline.contains(part), "{part}: {link}");
    }
    // By another name it is not to be had.
    let other = collector.send("GET", "/", &[("Host", "evil.example")], b"");
    assert_eq!(other.status, 403);
    let through = collector.send("GET", "/", &[("X-Forwarded-For", "10.0.0.1")], b"");
    assert_eq!(through.status, 403);
    let with_tokens = Collector::with_token();
    assert_eq!(with_tokens.send("GET", "/", &[], b"").status, 401);

    // Forgetting a device, and what is too old.
    let device = {
        let database =
            tracetee_fleet::database::Database::read(&collector.store().join("tables.sqlite"));
        database.unwrap().rows::<String>("SELECT device FROM captures LIMIT 1").unwrap().remove(0)
    };
    let before = collector.files("raw").len();
    let said = collector.tracetee(&["store", "forget", "--store", "store", &device]);
    assert!(said.starts_with(&format!("forgot {device}: ")), "{said}");
    let after = collector.files("raw");
    assert!(after.len() < before && before - after.len() <= 4, "{before} {}", after.len());
    let directory = collector.into_directory();
    // They came in September 2026.
    for path in after {
        let came = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_790_000_000);
        std::fs::File::options().append(true).open(path).unwrap().set_modified(came).unwrap();
    }
    let kept = Collector::start_in(directory, &["--keep-days", "1"]);
    for _ in 0..200 {
        if !kept.files("losses").is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(kept.files("raw").is_empty());
    kept.settle();
    assert!(kept.tracetee(&["report", "--store", "store"]).contains("retention_age"));
}

#[test]
fn crashes_of_a_version_by_ledgers_are_in_the_answer_though_captures_know_nothing() {
    let Some(chromium) = chromium() else { return };
    let collector = Collector::start(&[]);
    let death = |reason: &str, in_10000, seen_percent, versions: &[&str]| PlannedDeath {
        reason: reason.to_owned(),
        in_10000,
        seen_percent,
        versions: versions.iter().map(ToString::to_string).collect(),
    };
    let mut plan = Plan { frames: 6, ..Plan::rollout() };
    plan.from_s = (u64::from(today()) - plan.days) * 86_400;
    plan.rollout.as_mut().unwrap().captures = 1;
    plan.deaths = vec![
        death("low_memory", 500, 0, &[]),
        death("crash", 300, 100, &[]),
        death("crash", 3_000, 100, &["2.1"]),
    ];
    let directory = collector.directory.path();
    std::fs::write(directory.join("plan"), serde_json::to_string(&plan).unwrap()).unwrap();
    let said = collector.simulate(120, 6, &["--plan", "plan", "--truth", "truth"]);
    assert!(said.contains(" ledgers of 120 devices, "), "{said}");
    let compare = ["report", "--store", "store", "--compare", "2.0", "2.1"];
    let report = collector.tracetee(&[&compare[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    let truth = std::fs::read_to_string(directory.join("truth")).unwrap();
    let truth: Value = serde_json::from_str(&truth).unwrap();
    let app = &report["apps"][0];
    for (ver, truth) in truth["versions"].as_object().unwrap() {
        let ledgers = app["ledgers"]["versions"].as_array().unwrap();
        let of_version = ledgers.iter().find(|row| row["ver"] == **ver).unwrap();
        assert_eq!(of_version["parts"], truth["ledgers"]);
        for (reason, counts) in truth["deaths"].as_object().unwrap() {
            for (kind, expected) in [("exit", &counts[0]), ("visible_exit", &counts[1])] {
                let counts = app["ledgers"]["counts"].as_array().unwrap();
                let row = counts.iter().find(|row| {
                    (&row["ver"], &row["kind"], &row["name"])
                        == (&json!(ver), &json!(kind), &json!(reason))
                });
                assert_eq!(row.map_or(&json!(0), |row| &row["amount"]), expected, "{ver} {reason}");
            }
        }
    }
    let [captures, deaths] = [&app["comparison"], &app["ledgers"]["comparisons"][1]];
    let sentence = |one: &Value| one["sentence"].as_str().unwrap().to_owned();
    assert!(sentence(captures).starts_with("Cannot know"), "{captures}");
    assert!(sentence(deaths).starts_with("2.1 is worse than 2.0: "), "{deaths}");
    assert_eq!(
        (&deaths["rows"][1]["key"], &deaths["rows"][1]["verdict"]),
        (&json!("crash"), &json!("worse"))
    );
    collector.tracetee(&[&compare[..], &["-o", "fleet.html"]].concat());
    let dom = rendered(&chromium, &format!("file://{}", directory.join("fleet.html").display()));
    let answer =
        dom.split("aria-label=\"Answer\"").nth(1).and_then(|rest| rest.split("</section>").next());
    let answer = answer.unwrap();
    assert!(answer.contains(&sentence(captures)) && answer.contains(&sentence(deaths)), "{answer}");
    let text = collector.tracetee(&compare);
    for said in [text, dom] {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let of_deaths = said.rsplit("deaths in 1,000 days, from ledgers: means").next().unwrap();
        let note = of_deaths.split("excluded").next().unwrap();
        assert!(!note.contains("frames"), "{note}");
        assert!(note.contains("at least 2 % of change"), "{note}");
    }
}

//! A page in a real browser, driven by a script.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tracetee_tests::tools::{chromium, firefox, rendered};
use tracetee_tests::{cache, root};

/// Opens a page in a frame as wide as a screen, does what `script` does to it (`page`: its document, `tracetee`:
/// what it gives to who drives it, `key`: presses one), and gives what that returns.
#[must_use]
pub fn driven(chromium: &Path, page: &Path, script: &str) -> Value {
    driven_at(chromium, page, "", 1400, script)
}

/// The same, at a link of the page (`#…`) and in a frame of another width.
#[must_use]
pub fn driven_at(chromium: &Path, page: &Path, link: &str, width: u32, script: &str) -> Value {
    let wrapper = page.with_extension("driven.html");
    let text = format!(
        "<iframe id=frame style='width:{width}px;height:900px;border:0' src='{}{link}'></iframe><script>
        const frame = document.getElementById('frame');
        const wait = setInterval(() => {{
            const page = frame.contentDocument;
            if (page?.documentElement?.dataset?.ready !== 'yes') return;
            clearInterval(wait);
            const window = frame.contentWindow, tracetee = window.tracetee;
            const key = (key) => window.dispatchEvent(new window.KeyboardEvent('keydown', {{ key }}));
            let result;
            try {{ result = (() => {{ {script} }})(); }} catch (error) {{ result = {{ error: String(error) }}; }}
            document.title = JSON.stringify(result);
        }}, 50);
        </script>",
        page.file_name().unwrap().to_str().unwrap()
    );
    std::fs::write(&wrapper, text).unwrap();
    let dom = rendered(chromium, &format!("file://{}", wrapper.display()));
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    let title = title.unwrap_or_else(|| panic!("the page did not get ready: {dom}"));
    // A number and its unit have a no-break space between them.
    let title = title.replace("&nbsp;", " ").replace("&lt;", "<").replace("&gt;", ">");
    let title = title.replace("&amp;", "&");
    serde_json::from_str(&title).unwrap()
}

/// Does the tasks of a script in `tests/convert/browser` with real input in a browser (`chromium`, `firefox`); each of them
/// must succeed.
pub fn run_tasks(browser: &str, tasks: &str, pages: &[PathBuf]) {
    let Some(program) = (if browser == "firefox" { firefox() } else { chromium() }) else { return };
    let modules = cache("readers").join("node_modules");
    let driver = modules.join("puppeteer-core");
    if tracetee_tests::tools::tool(driver.is_dir().then_some(driver), "puppeteer-core").is_none() {
        return;
    }
    let scripts = root().join("tests/convert/browser");
    let output = Command::new("node")
        .arg(scripts.join("run.mjs"))
        .args([browser.as_ref(), program.as_os_str(), scripts.join(tasks).as_os_str()])
        .args(pages)
        .env("NODE_PATH", &modules)
        .output()
        .unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{browser}: {said}\n{errors}");
    let results: Vec<(String, Option<String>)> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(results.len() > 3, "{said}\n{errors}");
    let failed: Vec<_> = results.iter().filter(|(_, why)| why.is_some()).collect();
    assert!(failed.is_empty(), "{browser}, {} of {}: {failed:#?}", failed.len(), results.len());
}

//! A page in a real browser, driven by a script.

use serde_json::Value;
use std::path::Path;
use tracetee_tests::tools::rendered;

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
            let told;
            try {{ told = (() => {{ {script} }})(); }} catch (error) {{ told = {{ error: String(error) }}; }}
            document.title = JSON.stringify(told);
        }}, 50);
        </script>",
        page.file_name().unwrap().to_str().unwrap()
    );
    std::fs::write(&wrapper, text).unwrap();
    let dom = rendered(chromium, &format!("file://{}", wrapper.display()));
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    let title = title.unwrap_or_else(|| panic!("the page did not get ready: {dom}"));
    let title = title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&title).unwrap()
}

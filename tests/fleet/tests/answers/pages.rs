//! Reads the sentences, tables, tiles and bars that a browser draws of a report's page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use tracetee_tests::tools::rendered;

/// Pages that a browser draws at once.
const AT_ONCE: usize = 40;

/// A page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Drawn {
    /// Paragraphs of the answer.
    pub(crate) answer: Vec<String>,
    /// Values of no field that stand in the page: `null`, `undefined`, `NaN`.
    pub(crate) strays: Vec<String>,
    /// All paragraphs, those of the answer first.
    pub(crate) paragraphs: Vec<String>,
    /// Values of tiles by title.
    pub(crate) tiles: BTreeMap<String, String>,
    /// Cells of tables by id.
    pub(crate) tables: BTreeMap<String, Vec<Vec<String>>>,
    /// Summaries of what is folded.
    pub(crate) summaries: Vec<String>,
    /// Titles of the bars of frames.
    pub(crate) bars: Vec<String>,
    /// Number of the bars that can be chosen by keyboard.
    pub(crate) late_bars: usize,
    /// Number of the deadlines in charts of frames.
    pub(crate) deadlines: usize,
    /// Titles of the points of days.
    pub(crate) points: Vec<String>,
}

/// Script that reads each frame's document once it is drawn, and leaves all in the title.
const READER: &str = r#"
const texts = (of, selector) => [...of.querySelectorAll(selector)].map((one) => one.textContent);
const read = (page) => ({
  answer: texts(page, ".answer p, #answer p"), paragraphs: texts(page, "p"), summaries: texts(page, "summary"),
  tiles: Object.fromEntries([...page.querySelectorAll(".tile")].map((one) => [one.querySelector("span").textContent, one.querySelector("b").textContent])),
  tables: Object.fromEntries([...page.querySelectorAll("div.table[id]")].map((one) => [one.id, [...one.querySelectorAll("tbody tr")].map((row) => texts(row, "td"))])),
  bars: texts(page, "rect.bar-of-frame title"), late_bars: page.querySelectorAll("rect.bar-of-frame[role=button]").length,
  deadlines: [...page.querySelectorAll("path.deadline-line")].reduce((sum, line) => sum + line.getAttribute("d").split("M").length - 1, 0),
  points: texts(page, "circle title"),
  strays: page.body.innerText.match(/\b(null|undefined|NaN)\b/g) ?? [],
});
const wait = setInterval(() => {
  const pages = [...document.querySelectorAll("iframe")].map((one) => one.contentDocument);
  if (!pages.every((page) => page?.documentElement?.dataset.drawn === "yes")) return;
  clearInterval(wait);
  const bytes = new TextEncoder().encode(JSON.stringify(pages.map(read)));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  document.title = btoa(text);
}, 50);"#;

/// Draws pages in a browser.
pub(crate) fn drawn(chromium: &Path, pages: &[&str]) -> Vec<Drawn> {
    let directory = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for some in pages.chunks(AT_ONCE) {
        let mut outer = "<meta charset=utf-8><title></title>".to_owned();
        for (number, page) in some.iter().enumerate() {
            std::fs::write(directory.path().join(format!("{number}.html")), page).unwrap();
            outer +=
                &format!("<iframe style='width:1200px;height:900px' src='{number}.html'></iframe>");
        }
        let path = directory.path().join("all.html");
        std::fs::write(&path, format!("{outer}<script>{READER}</script>")).unwrap();
        let dom = rendered(chromium, &format!("file://{}", path.display()));
        let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        let json = STANDARD.decode(title.unwrap().trim()).unwrap();
        assert!(!json.is_empty(), "a page was not drawn");
        all.extend(serde_json::from_slice::<Vec<Drawn>>(&json).unwrap());
    }
    all
}

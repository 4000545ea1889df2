// Opens timelines.

// The timeline of a capture: a page of the collector, or one inside this page.
const openTimeline = async (timeline, hash) => {
  if (timeline.at) { window.open(timeline.at + hash); return; }
  // The window opens at once: browsers refuse one that opens after a wait.
  const other = window.open("about:blank");
  if (!other) { alert("The browser did not allow a new window."); return; }
  other.location = (await unpacked(timeline.gzip_base64)) + hash;
};
// Opens a timeline, and gives it the other one to compare with, which it shows as the later of the two; `names` are theirs.
const openCompared = async ([one, other], names, cause) => {
  const tab = window.open("about:blank");
  if (!tab) { alert("The browser did not allow a new window."); return; }
  const text = other.at ? await (await fetch(other.at)).text() : await (await pageOf(other.gzip_base64)).blob.text();
  tab.location = (one.at || (await unpacked(one.gzip_base64))) + `#cause=${encodeURIComponent(cause)}`;
  // It answers once it has it; a page in a blob has no origin that could be named.
  const timer = setInterval(() => tab.postMessage({ compare: text, names, cause }, "*"), 500);
  addEventListener("message", function heard(event) {
    if (event.source !== tab || event.data !== "compared") return;
    clearInterval(timer);
    removeEventListener("message", heard);
  });
  setTimeout(() => clearInterval(timer), 60000);
};
const pages = new Map();
const unpacked = async (gzip) => (await pageOf(gzip)).at;
const pageOf = async (gzip) => {
  if (!pages.has(gzip)) {
    const bytes = Uint8Array.from(atob(gzip), (char) => char.charCodeAt(0));
    const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
    const blob = new Blob([text], { type: "text/html" });
    pages.set(gzip, { blob, at: URL.createObjectURL(blob) });
  }
  return pages.get(gzip);
};
const openButton = (timeline, text, hash) => {
  const button = make("button", { type: "button" }, text);
  button.addEventListener("click", () => openTimeline(timeline, hash));
  return button;
};
const linkTo = (ns) => `#t=${Math.floor(ns / 1e9)}.${String(ns % 1e9).padStart(9, "0")}`;

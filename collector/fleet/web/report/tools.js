// Makes elements and texts. Everything becomes text nodes: nothing of a trace is ever markup.
let data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");

const make = (tag, attributes, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};
const count = (value) => Number(value).toLocaleString("en-US");
const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
// Rounded half up, as the text is: toFixed rounds what binary fractions make of a number.
const decimal = (tenths) => `${Math.floor(tenths / 10)}.${tenths % 10}`;
const ms = (ns) => (ns >= 1e10 ? decimal(Math.floor((ns + 5e7) / 1e8)) + " s" : decimal(Math.floor((ns + 5e4) / 1e5)) + " ms");
// A number with this many decimals. Halves are rounded to even digits, as in the text report.
const fixed = (value, digits = 1) => {
  const isHalf = Math.abs(value * 2 ** (digits + 1)) % 2 === 1, down = Math.trunc(value * 10 ** digits);
  return (isHalf && down % 2 === 0 ? down / 10 ** digits : value).toFixed(digits);
};
const tenths = (value) => decimal(value) + " ms";
const share = (part, of) => (of ? decimal(Math.floor((part * 1000 + Math.floor(of / 2)) / of)) + " %" : "-");
// A screen's name; captures without one come from apps that name no screens.
const named = (text) => text || "(no screen named)";
const link = (text, act, title) => {
  const button = make("button", { type: "button", class: "link", ...(title ? { title } : {}) }, text);
  button.addEventListener("click", act);
  return button;
};
const goTo = (id, text, title) => link(text, () => {
  const target = document.getElementById(id);
  if (!target) return;
  if (target.tagName === "DETAILS") target.open = true;
  target.scrollIntoView();
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
}, title);

const tile = (title, value) => make("div", { class: "tile" }, make("span", { class: "faint" }, title), make("b", {}, value));
// Perfetto's interface takes a trace from the page that has opened it: it never goes to a server.
const openInPerfetto = (title, bytes) => {
  const origin = "https://ui.perfetto.dev";
  const other = window.open(origin);
  if (!other) { alert("The browser did not allow a new window."); return; }
  const timer = setInterval(() => other.postMessage("PING", origin), 100);
  const onMessage = (event) => {
    if (event.origin !== origin || event.data !== "PONG") return;
    clearInterval(timer);
    window.removeEventListener("message", onMessage);
    other.postMessage({ perfetto: { buffer: bytes.buffer, title } }, origin);
  };
  window.addEventListener("message", onMessage);
  setTimeout(() => clearInterval(timer), 60000);
};
const timelineButton = (title, fetchBytes) => {
  const button = make("button", { type: "button" }, "Open the timeline in Perfetto");
  button.addEventListener("click", async () => openInPerfetto(title, await fetchBytes()));
  return button;
};

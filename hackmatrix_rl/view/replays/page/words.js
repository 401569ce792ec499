"use strict";
/* Small helpers: elements, numbers and names. */

const find = (id) => document.getElementById(id);

/** An element with properties and children; text children cannot become markup. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name in made && !name.startsWith("aria")) made[name] = value;
    else if (value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** An SVG element with attributes. */
function drawn(tag, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

/** A number in few characters, with a real minus sign. */
function number(value, { sign = false, digits = 2 } = {}) {
  if (typeof value !== "number") return value === "nan" ? "not a number" : String(value);
  const fixed = Math.abs(value).toFixed(Math.abs(value) >= 1000 ? 0 : digits);
  const short = fixed.includes(".") ? fixed.replace(/0+$/, "").replace(/\.$/, "") : fixed;
  const before = value < 0 && Number(short) !== 0 ? "\u2212" : sign && value > 0 ? "+" : "";
  return before + short.replace(/\B(?=(\d{3})+(?!\d))/, ",");
}

const percent = (value) =>
  typeof value !== "number" ? number(value)
    : value > 0 && value < 0.01 ? "<1%" : `${Math.round(100 * value)}%`;

/** "step_penalty" as "step penalty". */
const spaced = (name) => name.replaceAll("_", " ");

const ENDS = {
  "won": "Won: the last stage is complete.",
  "died": "Died.",
  "no legal action": "Ended: no action was legal.",
  "cut off": "Cut off: the limit of moves is reached.",
  "terminated": "Terminated: the rules ended the episode.",
  "truncated": "Truncated: a limit of steps ended the episode.",
};

/** Starts the download of a text. */
function download(name, text) {
  const link = element("a", {
    href: URL.createObjectURL(new Blob([text], { type: "application/json" })),
    download: name,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

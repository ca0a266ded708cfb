// What every screen is made of. Whatever people or models wrote goes into the page as text, never
// as HTML: every element is made by el(), which knows no markup.

export const telegram = window.Telegram?.WebApp;
export const isOutside = document.getElementById("enter") !== null; // of Telegram
const ANSWER_MS = 60 * 1000;
const UNDO_MS = 60 * 1000; // then there is /undo
const HEARD_MS = 6000;
const NEAR = "600px"; // to the end of a list: more of it is loaded then

let texts = {};
export let kinds = {};

export class Refused extends Error {}

export function t(name, values = {}) {
  return (texts[name] ?? "").replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

export async function learn() {
  const told = await ask("start");
  texts = told.texts;
  kinds = told.kinds;
  document.documentElement.lang = told.language;
}

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// --- Telegram ----------------------------------------------------------------------------------

export function knows(version) {
  return Boolean(telegram?.initData) && (telegram.isVersionAtLeast?.(version) ?? false);
}

export function feel(kind) {
  if (!knows("6.1")) return;
  if (kind === "change") telegram.HapticFeedback?.selectionChanged();
  else telegram.HapticFeedback?.notificationOccurred(kind);
}

// The theme's colours of texts where they can be read on its papers (WCAG 2.2), else our own.
const COLOURS = {
  "--blue": "accent_text_color", "--red": "destructive_text_color",
  "--quiet": "subtitle_text_color",
};

export function paint() {
  if (!telegram?.initData || !telegram.colorScheme) return;
  const root = document.documentElement;
  root.dataset.scheme = telegram.colorScheme;
  const theme = telegram.themeParams ?? {};
  const card = theme.section_bg_color ?? theme.bg_color;
  const papers = [card, theme.secondary_bg_color ?? card];
  for (const [name, param] of Object.entries(COLOURS)) {
    const colour = theme[param];
    const isReadable = colour && card && papers.every((one) => contrast(colour, one) >= 4.5);
    if (isReadable) root.style.setProperty(name, colour);
    else root.style.removeProperty(name);
  }
}

function contrast(one, other) {
  const [dark, light] = [brightness(one), brightness(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function brightness(hex) {
  const [red, green, blue] = [1, 3, 5]
    .map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// --- The API -----------------------------------------------------------------------------------

// A file is uploaded as it is, however long that takes.
export async function call(path, body) {
  const options = { headers: {}, cache: "no-store", credentials: "omit", redirect: "error" };
  if (isOutside) options.credentials = "same-origin"; // the cookie of a one-time link
  else options.headers.Authorization = `tma ${telegram?.initData ?? ""}`;
  const isFile = body instanceof File;
  if (isFile) {
    options.method = "PUT";
    options.body = body;
  } else if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const ending = new AbortController();
  const timer = isFile ? 0 : setTimeout(() => ending.abort(), ANSWER_MS);
  try {
    const response = await fetch(`api/${path}`, { ...options, signal: ending.signal });
    if (response.ok) return response;
    const told = await response.json().catch(() => ({}));
    throw new Refused(told.error ?? "");
  } catch (error) {
    throw error instanceof Refused ? error : new Refused(t("unreachable"));
  } finally {
    clearTimeout(timer);
  }
}

export let changes = 0; // of what is kept: what was shown before them is old
export async function ask(path, body) {
  const response = await call(path, body);
  if (body && !/^search|find/.test(path)) changes += 1;
  try {
    return await response.json();
  } catch {
    throw new Refused(t("unreachable"));
  }
}

// Runs what a button stands for: it waits meanwhile, and what goes wrong is said.
export async function busy(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true"); // disabled would lose the focus
  try {
    await work();
  } catch (error) {
    feel("error");
    note(reason(error), { isWrong: true });
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

export function reason(error) {
  if (!(error instanceof Refused)) console.error(error.name);
  return (error instanceof Refused && error.message) || t("unreachable");
}

// --- Pieces ------------------------------------------------------------------------------------

// The one quiet note, in place of the one before; with a way to take back what it tells.
const place = document.getElementById("note");
let fading;
export function hush() {
  clearTimeout(fading);
  place.replaceChildren();
}

export function note(text, { isWrong = false, undo = null } = {}) {
  hush();
  place.className = isWrong ? "wrong" : "";
  place.append(prose(text.replace(/\n+/g, "\n")));
  if (undo) {
    const back = button(t("undo"), (pressed) => busy(pressed, async () => {
      const said = await undo();
      feel("success");
      note(said);
    }), { class: "link" });
    place.append(back, button("×", hush, { class: "link", "aria-label": t("close") }));
    back.focus({ preventScroll: true });
  }
  fading = setTimeout(hush, undo ? UNDO_MS : HEARD_MS);
}

export function button(label, onclick, attributes = {}) {
  const made = el("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", () => onclick(made));
  return made;
}

// A button that loads the rest, and presses itself when it comes near the screen.
export function more(load, show) {
  const made = button(t("more"), () => busy(made, async () => {
    const page = await load();
    if (!made.isConnected) return; // the list is another by now
    show(page);
    made.remove();
  }), { class: "more" });
  new IntersectionObserver((seen, watching) => {
    if (!made.isConnected) watching.disconnect();
    else if (seen.some((one) => one.isIntersecting)) made.click();
  }, { rootMargin: NEAR }).observe(made);
  return made;
}

export function prose(text, name = "text") {
  return el("p", { class: name, dir: "auto" }, text);
}

// A line of a list that opens on a tap; at most one of its list is open.
export function row(text, meta, details, attributes = {}) {
  const inside = el("div", { class: "inside", hidden: true });
  const head = button("", () => turn(inside.hidden), { class: "head", "aria-expanded": "false" });
  head.append(el("span", { class: "text", dir: "auto" }, text),
    el("span", { class: "quiet" }, ...[meta].flat()));
  const made = el("li", { class: "row", ...attributes }, head, inside);
  function turn(isOpen) {
    if (isOpen) {
      const at = head.getBoundingClientRect().top;
      made.closest(".list").querySelector('.head[aria-expanded="true"]')?.click();
      window.scrollBy(0, head.getBoundingClientRect().top - at); // it stays under the finger
      inside.replaceChildren(...details());
    }
    inside.hidden = !isOpen;
    head.setAttribute("aria-expanded", String(isOpen));
  }
  return made;
}

// What was asked for last is shown in an element; a failure offers another try.
const asked = new WeakMap();
export async function fill(target, load, show) {
  const mine = Symbol();
  asked.set(target, mine);
  target.setAttribute("aria-busy", "true");
  if (!target.hasChildNodes()) target.replaceChildren(prose(t("loading"), "quiet"));
  const found = await load().catch((error) => error);
  if (asked.get(target) !== mine) return;
  target.removeAttribute("aria-busy");
  if (found instanceof Error) {
    const again = button(t("retry"), () => fill(target, load, show));
    target.replaceChildren(el("p", { role: "alert", class: "wrong" }, reason(found)), again);
  } else show(found);
}

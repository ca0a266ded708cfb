// Sections and what opens above them; the way back, and forms with Telegram's own button.

import { busy, button, changes, el, feel, hush, knows, reason, t, telegram } from "./base.js";

const main = document.getElementById("main");
const HOME = "facts";
const SVG = "http://www.w3.org/2000/svg";
const ICONS = { // a bookmark, a bubble, a clock, sliders
  facts: "M6 4h12v16l-6-4.5L6 20z",
  talk: "M4 5h16v11h-8l-5 4v-4H4z",
  reminders: "M12 3.5a8.5 8.5 0 1 0 .01 0M12 7.5V12l3.2 2",
  menu: "M4 7h9m5 0h2M4 17h2m5 0h9M13 7a2.5 2.5 0 1 0 5 0 2.5 2.5 0 1 0-5 0M6 17a2.5 2.5 0 1 0 5 0"
    + " 2.5 2.5 0 1 0-5 0",
};
const sections = {};
const above = []; // what covers the section: {section, opener, at, close}
let shown = HOME;

function icon(name) {
  const [svg, path] = ["svg", "path"].map((one) => document.createElementNS(SVG, one));
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

function makeSection(title, parts, attributes = {}) {
  const heading = el("h1", { tabindex: "-1" }, title);
  return el("section", { "aria-label": title, ...attributes }, heading, ...parts);
}

function top() {
  return above.at(-1)?.section ?? sections[shown].section;
}

function showBack() {
  if (!knows("6.1")) return;
  if (above.length || shown !== HOME) telegram.BackButton?.show();
  else telegram.BackButton?.hide();
}

export function goBack() {
  if (!above.length) {
    if (shown !== HOME) open(HOME);
    return;
  }
  const { section, opener, at, close } = above.pop();
  close?.();
  section.remove();
  top().hidden = false;
  window.scrollTo(0, at);
  const next = opener?.isConnected ? opener : top().querySelector("h1");
  next.focus({ preventScroll: true });
  showBack();
}

// Cover what is seen with another screen, until goBack().
export function push(title, parts, close) {
  const covered = top();
  above.push({ opener: document.activeElement, at: window.scrollY, close, section: null });
  const back = knows("6.1") ? null : button(`‹ ${t("back")}`, goBack, { class: "link" });
  const section = makeSection(title, [back, ...parts]);
  hush();
  above.at(-1).section = section;
  covered.hidden = true;
  main.append(section);
  window.scrollTo(0, 0);
  section.querySelector("h1").focus({ preventScroll: true });
  showBack();
}

export function open(name) {
  while (above.length) goBack();
  hush();
  const isAgain = shown === name;
  if (!isAgain) sections[shown].seen = changes; // it showed what was changed there
  shown = name;
  for (const [key, { section, tab }] of Object.entries(sections)) {
    section.hidden = key !== name;
    if (key === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  window.scrollTo(0, sections[name].at ?? 0);
  showBack();
  if (sections[name].seen === changes && !isAgain) return;
  sections[name].seen = changes;
  sections[name].load();
}

export function build(makers) {
  document.querySelector("nav")?.remove();
  above.length = 0;
  const nav = el("nav", { "aria-label": t("sections") });
  const parts = [];
  for (const [name, make] of Object.entries(makers)) {
    const made = make();
    const section = makeSection(t(name), made.parts, { hidden: true });
    const tab = button("", () => {
      feel("change");
      sections[shown].at = window.scrollY;
      open(name);
    });
    tab.append(icon(name), t(name));
    sections[name] = { section, tab, load: made.load };
    nav.append(tab);
    parts.push(section);
  }
  main.replaceChildren(...parts);
  main.removeAttribute("aria-busy");
  document.body.prepend(nav);
}

// Nothing is left to be seen but this.
export function end(title, parts) {
  above.length = 0;
  hush();
  document.querySelector("nav")?.remove();
  main.replaceChildren(makeSection(title, parts));
  if (knows("6.1")) telegram.BackButton?.hide();
}

// A screen with one field. What submit() throws stands below it; what it returns, too.
export function pushForm({ title, label, hint, field, submit }) {
  const wrong = el("p", { class: "wrong", role: "alert", id: "field-wrong" });
  const extra = el("div", { class: "list" });
  const own = knows("6.0") ? telegram.MainButton : null;
  const save = el("button", { type: "submit", class: "main", hidden: Boolean(own) }, t("save"));
  const form = el("form", {
    onsubmit: (event) => {
      event.preventDefault();
      busy(save, async () => {
        wrong.textContent = "";
        own?.showProgress?.(false);
        try {
          extra.replaceChildren(...((await submit(field.value)) ?? []));
          feel("success");
        } catch (error) {
          feel("error");
          wrong.textContent = reason(error);
          field.focus();
        } finally {
          own?.hideProgress?.();
        }
      });
    },
  },
  el("label", { for: "field" }, label), field,
  hint && el("p", { class: "quiet", id: "field-hint" }, hint), wrong, save, extra);
  field.id = "field";
  field.setAttribute("aria-describedby", hint ? "field-hint field-wrong" : "field-wrong");
  const press = () => save.click();
  push(title, [form], () => {
    own?.offClick(press);
    own?.hide();
    if (knows("6.2")) telegram.disableClosingConfirmation?.();
  });
  own?.setText(t("save"));
  own?.onClick(press);
  own?.show();
  if (knows("6.2")) field.addEventListener("input", () => telegram.enableClosingConfirmation?.());
  field.focus();
}

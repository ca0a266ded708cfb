// What was said, in reading order; a search in it, whose results lead to the very message.

import { ask, button, el, fill, more, prose, t } from "./base.js";
import { push } from "./screens.js";

// A list of messages that opens at the newest, at a message or at a day.
function makeTimeline() {
  const list = el("div", { class: "list talk" });
  const older = el("div");
  const newer = el("div");
  let topic = 0;
  const page = (query) => ask(`timeline?${new URLSearchParams(query)}`);
  const open = (query = {}) => fill(list, () => page(query), show);

  function show(first) {
    topic = first.topic;
    if (!first.messages.length) {
      list.replaceChildren(prose(t("no_messages"), "quiet"));
      return;
    }
    list.replaceChildren(older, newer);
    showNewer(first);
    offerOlder(first);
    const found = first.at && list.querySelector(`[data-message="${first.at}"]`);
    if (!found) {
      window.scrollTo(0, document.documentElement.scrollHeight);
      return;
    }
    found.classList.add("found");
    found.scrollIntoView({ block: "center" });
    found.focus({ preventScroll: true });
  }

  function showNewer({ messages, newer: from }) {
    for (const message of messages) {
      let day = newer.previousElementSibling;
      if (day.dataset.date !== message.date) newer.before(day = makeDay(message));
      day.append(bubble(message));
    }
    newer.replaceChildren(...(from === null ? [] : [more(() => page({ from, topic }), showNewer)]));
  }

  function showOlder(next) {
    const left = document.documentElement.scrollHeight - window.scrollY;
    for (const message of next.messages.reverse()) {
      let day = older.nextElementSibling;
      if (day.dataset.date !== message.date) older.after(day = makeDay(message));
      day.firstChild.after(bubble(message));
    }
    offerOlder(next);
    window.scrollTo(0, document.documentElement.scrollHeight - left); // what is read stays there
  }

  function offerOlder({ older: before }) {
    older.replaceChildren(
      ...(before === null ? [] : [more(() => page({ before, topic }), showOlder)]));
  }

  return { list, open };
}

function makeDay(message) {
  return el("section", { class: "day", "data-date": message.date, "aria-label": message.day },
    el("h2", {}, message.day));
}

function bubble(message) {
  return el("article", {
    class: `bubble ${message.by}`, "data-message": String(message.id), tabindex: "-1",
    "aria-label": t(message.by === "bot" ? "bot" : "you"),
  }, said(message),
  prose(message.private ? `${t("private")} · ${message.time}` : message.time, "quiet"));
}

// The words of a message; of an answer with Markdown, elements that the bot names.
function said({ text, nodes }) {
  if (nodes === null) return prose(text);
  const made = (node) => {
    if (typeof node === "string") return node;
    const [name, ...inside] = node;
    if (name !== "link") return el(name, {}, ...inside.map(made));
    const [address, ...words] = inside;
    return el("span", {}, ...words.map(made), ...(words[0] === address ? [] : [` (${address})`]));
  };
  const isLine = nodes.length === 1 && nodes[0][0] === "p";
  const inside = (isLine ? nodes[0].slice(1) : nodes).map(made);
  return el(isLine ? "p" : "div", { class: isLine ? "text" : "text marked", dir: "auto" }, ...inside);
}

// The parts of a screen that shows the place of a message.
export function timelineAt(query) {
  const timeline = makeTimeline();
  queueMicrotask(() => timeline.open(query)); // when it is on the screen
  return [timeline.list];
}

export function makeTalk() {
  const timeline = makeTimeline();
  const day = el("input", { type: "date", "aria-label": t("date") });
  day.addEventListener("change", () => timeline.open(day.value ? { on: day.value } : {}));
  const load = () => { day.value = ""; return timeline.open(); };
  const newest = button("↓", load, { "aria-label": t("newest"), title: t("newest") });
  const search = searchForm(pushSearch);
  return { parts: [el("div", { class: "tools sticky" }, search, day, newest), timeline.list], load };
}

function searchForm(find, text = "") {
  const field = el("input", {
    type: "search", maxlength: "500", enterkeyhint: "search", dir: "auto", autocomplete: "off",
    placeholder: t("search"), "aria-label": t("find_message"),
  });
  field.value = text;
  return el("form", {
    role: "search",
    onsubmit: (event) => {
      event.preventDefault();
      if (field.value.trim()) find(field.value);
      else field.focus();
    },
  }, field);
}

function pushSearch(text) {
  const count = el("p", { class: "quiet", role: "status" });
  const list = el("div", { class: "list" });
  const find = (words) => fill(list, () => ask("search", { text: words }), ({ hits, nothing }) => {
    count.textContent = hits.length ? t("found", { count: hits.length }) : nothing;
    list.replaceChildren(el("ul", { class: "group" }, ...hits.map(hit)));
  });
  push(t("search"), [searchForm(find, text), prose(t("search_hint"), "quiet"), count, list]);
  find(text);
}

function hit(one) {
  const what = [t(one.by === "bot" ? "bot" : "you"), `${one.day}, ${one.time}`,
    ...(one.kind === "fact" ? [t("fact")] : []), ...(one.retired ? [t("retired")] : [])];
  const made = one.message === null ? el("div", { class: "head" })
    : button("", () => push(t("talk"), timelineAt({ message: one.message })), { class: "head" });
  made.append(el("span", { class: "text", dir: "auto" }, one.text),
    el("span", { class: "quiet" }, what.join(" · ")));
  return el("li", { class: one.retired ? "row retired" : "row" }, made);
}

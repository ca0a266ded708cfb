// What was said, in reading order; a search in it, whose results lead to the very message.

import { ask, busy, button, el, fill, more, prose, t } from "./base.js";
import { push } from "./screens.js";

// A list of messages that opens at the newest, at a message or at a day.
function makeTimeline() {
  const list = el("div", { class: "list talk" });
  const older = el("div", { class: "slot" });
  const newer = el("div", { class: "slot" });
  let topic = 0;

  async function open(query = {}) {
    const page = await ask(`timeline?${new URLSearchParams(query)}`);
    topic = page.topic;
    list.replaceChildren(older, newer);
    append(page.messages);
    offer(older, page.older, before);
    offer(newer, page.newer, after);
    if (!page.messages.length) list.replaceChildren(prose(t("no_messages"), "quiet"));
    const found = page.at && list.querySelector(`[data-message="${page.at}"]`);
    if (!found) {
      window.scrollTo(0, document.documentElement.scrollHeight);
      return;
    }
    found.classList.add("found");
    found.scrollIntoView({ block: "center" });
    found.focus({ preventScroll: true });
  }

  function offer(slot, place, load) {
    slot.replaceChildren(...(place === null ? [] : [more(() => load(place))]));
  }

  async function before(place) {
    const page = await ask(`timeline?${new URLSearchParams({ before: place, topic })}`);
    const left = document.documentElement.scrollHeight - window.scrollY;
    for (const message of [...page.messages].reverse()) {
      let day = older.nextElementSibling;
      if (day.dataset.date !== message.date) older.after(day = makeDay(message));
      day.firstChild.after(bubble(message));
    }
    offer(older, page.older, before);
    window.scrollTo(0, document.documentElement.scrollHeight - left); // what is read stays there
  }

  async function after(place) {
    const page = await ask(`timeline?${new URLSearchParams({ from: place, topic })}`);
    append(page.messages);
    offer(newer, page.newer, after);
  }

  function append(messages) {
    for (const message of messages) {
      let day = newer.previousElementSibling;
      if (day?.dataset.date !== message.date) newer.before(day = makeDay(message));
      day.append(bubble(message));
    }
  }

  function makeDay(message) {
    return el("section", { class: "day", "data-date": message.date, "aria-label": message.day },
      el("h2", {}, message.day));
  }

  function bubble(message) {
    const said = [message.by === "bot" ? t("bot") : t("you"), message.time,
      ...(message.private ? [t("private")] : [])];
    return el("article",
      { class: `bubble ${message.by}`, "data-message": String(message.id), tabindex: "-1" },
      prose(said.join(" · "), "quiet"), prose(message.text));
  }

  return { list, open: (query) => fill(list, () => open(query)) };
}

// The parts of a screen that shows the place of a message, or the beginning of a day.
export function timelineAt(query) {
  const timeline = makeTimeline();
  queueMicrotask(() => timeline.open(query)); // when it is on the screen
  return [timeline.list];
}

export function makeTalk() {
  const timeline = makeTimeline();
  const day = el("input", { type: "date", "aria-label": t("date") });
  day.addEventListener("change", () => {
    if (day.value) timeline.open({ on: day.value });
    else timeline.open();
  });
  const newest = button("↓", () => { day.value = ""; timeline.open(); },
    { "aria-label": t("newest"), title: t("newest") });
  const search = searchForm((text) => pushSearch(text));
  return {
    parts: [el("div", { class: "tools sticky" }, search, day, newest), timeline.list],
    load: () => { day.value = ""; return timeline.open(); },
  };
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
  const list = el("ul", { class: "group list" });
  let wanted = null; // what is to be searched next, also when it is asked for during a search
  const find = (words) => {
    wanted = words;
    return busy(list, async () => {
      while (wanted !== null) {
        const asked = wanted;
        wanted = null;
        const found = await ask("search", { text: asked });
        const total = found.hits.length;
        count.textContent = total ? t("found", { count: total }) : found.nothing;
        list.replaceChildren(...found.hits.map(hit));
      }
    });
  };
  push(t("search"), [searchForm(find, text), prose(t("search_hint"), "quiet"), count, list]);
  find(text);
}

function hit(one) {
  const what = [one.by === "bot" ? t("bot") : t("you"), `${one.day}, ${one.time}`,
    ...(one.kind === "fact" ? [t("fact")] : []), ...(one.retired ? [t("retired")] : [])];
  const parts = [el("span", { class: "text", dir: "auto" }, one.text),
    el("span", { class: "quiet" }, what.join(" · "))];
  const made = one.message === null ? el("div", { class: "head" }, ...parts)
    : button("", () => push(t("talk"), timelineAt({ message: one.message })), { class: "head" });
  if (one.message !== null) made.append(...parts);
  return el("li", { class: one.retired ? "row retired" : "row" }, made);
}

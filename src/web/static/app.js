// The memory as a page in Telegram. Whatever people or models wrote goes into the page as text,
// never as HTML: every element is made by el(), which knows no markup.

const telegram = window.Telegram?.WebApp;
const main = document.getElementById("main");
const problem = document.getElementById("problem");
const heard = document.getElementById("heard");
const UNDO_MS = 10 * 60 * 1000; // as long as a forgetting can be taken back
const ANSWER_MS = 60 * 1000;
const KEPT_URL_MS = 60 * 1000;
const HEARD_MS = 6000;

let texts = {};
let kinds = {};
let shown = "facts";
const sections = {};

class Refused extends Error {}

function t(name, values = {}) {
  return (texts[name] ?? "").replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

function el(name, attributes = {}, ...children) {
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

function knows(version) {
  return telegram?.isVersionAtLeast?.(version) ?? false;
}

function feel(kind) {
  if (!knows("6.1")) return;
  if (kind === "change") telegram.HapticFeedback?.selectionChanged();
  else telegram.HapticFeedback?.notificationOccurred(kind);
}

function paint() {
  const scheme = telegram?.colorScheme;
  if (scheme && telegram.initData) document.documentElement.dataset.scheme = scheme;
}

function showBack() {
  if (!knows("6.1")) return;
  const isAway = shown !== "facts" || document.querySelector("form.correction") !== null;
  if (isAway) telegram.BackButton?.show();
  else telegram.BackButton?.hide();
}

function goBack() {
  const form = document.querySelector("form.correction");
  if (form) form.querySelector(".cancel").click();
  else open("facts");
}

// --- The API -----------------------------------------------------------------------------------

async function call(path, body) {
  const options = {
    headers: { Authorization: `tma ${telegram?.initData ?? ""}` },
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(), ANSWER_MS);
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

async function ask(path, body) {
  const response = await call(path, body);
  try {
    return await response.json();
  } catch {
    throw new Refused(t("unreachable"));
  }
}

// Runs what a button stands for: it waits meanwhile, and what goes wrong is said.
async function busy(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true"); // disabled would lose the focus
  try {
    await work();
  } catch (error) {
    feel("error");
    complain(error);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

function complain(error) {
  if (!(error instanceof Refused)) console.error(error.name);
  say(error instanceof Refused && error.message ? error.message : t("unreachable"), true);
}

let fading;
function say(text, isWrong = false) {
  heard.textContent = text;
  heard.className = isWrong ? "wrong" : "";
  clearTimeout(fading);
  fading = setTimeout(() => { heard.textContent = ""; }, HEARD_MS);
}

// --- Pieces ------------------------------------------------------------------------------------

function button(label, onclick, attributes = {}) {
  const made = el("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", () => onclick(made));
  return made;
}

function more(load) {
  return button(t("more"), (made) => busy(made, load), { class: "more" });
}

function prose(text, name = "text") {
  return el("p", { class: name, dir: "auto" }, text);
}

// What is loaded into a section's own element; the first failure offers another try.
async function fill(target, load) {
  target.setAttribute("aria-busy", "true");
  if (!target.hasChildNodes()) target.replaceChildren(prose(t("loading"), "quiet"));
  try {
    await load();
  } catch (error) {
    const told = error instanceof Refused && error.message ? error.message : t("unreachable");
    const again = button(t("retry"), () => fill(target, load));
    target.replaceChildren(el("p", { role: "alert", class: "wrong" }, told), again);
  } finally {
    target.removeAttribute("aria-busy");
  }
}

// --- Facts -------------------------------------------------------------------------------------

function makeFacts() {
  const notes = el("div", { class: "notes" });
  const chips = el("div", { class: "chips", role: "group", "aria-label": t("kinds") });
  const list = el("div", { class: "list" });
  const state = { kind: null, next: null, seen: 0 };

  function show(page) {
    const held = list.dataset.kind;
    if (state.seen === 0) list.replaceChildren();
    let kind = state.seen === 0 ? undefined : held;
    for (const fact of page.facts) {
      if (fact.kind !== kind) list.append(el("h2", {}, kinds[fact.kind] ?? fact.kind));
      kind = fact.kind;
      list.append(card(fact));
    }
    list.dataset.kind = kind ?? "";
    state.seen += page.facts.length;
    state.next = page.next;
    if (state.seen === 0) list.replaceChildren(prose(t("no_facts"), "quiet"));
    if (state.next !== null) list.append(more(next));
    showChips(page.counts);
  }

  function showChips(counts) {
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    const named = [[null, t("all"), all], ...Object.entries(counts).map(
      ([kind, count]) => [kind, kinds[kind] ?? kind, count])];
    const focused = chips.contains(document.activeElement);
    chips.replaceChildren(...(named.length > 2 ? named : []).map(([kind, label, count]) =>
      button(`${label} ${count}`, (made) => busy(made, () => choose(kind)),
        { "aria-pressed": String(kind === state.kind) })));
    if (focused) chips.querySelector('[aria-pressed="true"]')?.focus();
  }

  async function page(offset) {
    const query = new URLSearchParams({ offset: String(offset) });
    if (state.kind !== null) query.set("kind", state.kind);
    return ask(`facts?${query}`);
  }

  async function next() {
    const loaded = await page(state.next);
    list.querySelector(".more")?.remove();
    show(loaded);
  }

  async function choose(kind) {
    state.kind = kind;
    feel("change");
    await reload();
  }

  async function reload() {
    const loaded = await page(0);
    state.seen = 0;
    show(loaded);
    showBack();
  }

  // What was just done, with a button that takes it back while that is possible.
  function note(text, path, hint) {
    const made = el("div", { class: "note" }, prose(text), hint && prose(hint, "quiet"));
    const close = () => made.remove();
    const undo = path && button(t("undo"), (pressed) => busy(pressed, async () => {
      const undone = await ask(path, {});
      close();
      feel("success");
      say(undone.text);
      await reload();
    }), { class: "main" });
    made.append(el("div", { class: "doings" }, undo, button(t("close"), close)));
    setTimeout(close, UNDO_MS);
    notes.prepend(made);
    made.querySelector("button").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  function card(fact) {
    const made = el("article", { class: "card", "data-fact": String(fact.id) });
    const mark = el("span", { class: "mark", hidden: !fact.pinned }, `★ ${t("pinned")}`);
    const before = fact.before.map((old) =>
      prose(old.until ? t("until", { day: old.until, text: old.text }) : t("before", old),
        "quiet"));
    const pin = button(t(fact.pinned ? "unpin" : "pin"), (pressed) => busy(pressed, async () => {
      const done = await ask(`facts/${fact.id}/pin`, { pinned: !fact.pinned });
      fact.pinned = done.pinned;
      mark.hidden = !fact.pinned;
      pin.textContent = t(fact.pinned ? "unpin" : "pin");
      feel("success");
    }), { class: "pin" });
    const correct = button(t("correct"), () => {
      if (made.querySelector("form")) return;
      made.append(correction(fact, made, correct));
      correct.setAttribute("aria-expanded", "true");
      made.querySelector("textarea").focus();
      showBack();
    }, { class: "correct", "aria-expanded": "false" });
    const forget = button(t("forget"), (pressed) => busy(pressed, async () => {
      const done = await ask(`facts/${fact.id}/forget`, {});
      feel("success");
      await reload();
      const path = done.undo === null ? null : `forgettings/${done.undo}/undo`;
      note(t("forgotten", { text: done.texts.join("; ") }), path, path && t("undo_until"));
    }), { class: "forget" });
    made.append(
      mark, prose(fact.text), ...before,
      el("figure", {},
        el("figcaption", { class: "quiet" }, t("said", { day: fact.day })),
        fact.quote === fact.text ? null : el("blockquote", { dir: "auto" }, fact.quote)),
      el("div", { class: "doings" }, pin, correct, forget),
    );
    return made;
  }

  function correction(fact, around, opener) {
    const id = `right-${fact.id}`;
    const field = el("textarea", { id, rows: "3", maxlength: "4096", dir: "auto" });
    field.value = fact.text;
    const wrong = el("p", { class: "wrong", role: "alert" });
    const save = el("button", { type: "submit", class: "main" }, t("save"));
    const close = () => {
      form.remove();
      opener.setAttribute("aria-expanded", "false");
      opener.focus();
      showBack();
    };
    const form = el("form", {
      class: "correction",
      onsubmit: (event) => {
        event.preventDefault();
        wrong.textContent = "";
        busy(save, async () => {
          try {
            const done = await ask(`facts/${fact.id}/correct`, { text: field.value });
            if (done.fact === null) throw new Refused(done.text);
            feel("success");
            close();
            await reload();
            note(done.text, `facts/${done.fact}/undo`);
          } catch (error) {
            feel("error");
            wrong.textContent = error.message || t("unreachable");
            if (around.isConnected) field.focus();
          }
        });
      },
    },
    el("label", { for: id }, t("right")), field, wrong,
    el("div", { class: "doings" }, save, button(t("cancel"), close, { class: "cancel" })));
    return form;
  }

  return { parts: [notes, chips, list], load: () => fill(list, reload) };
}

// --- Search ------------------------------------------------------------------------------------

function makeSearch() {
  const field = el("input", {
    id: "words", type: "search", maxlength: "500", enterkeyhint: "search", dir: "auto",
    autocomplete: "off", "aria-describedby": "words-hint",
  });
  const find = el("button", { type: "submit", class: "main" }, t("find"));
  const count = el("p", { class: "quiet", role: "status" });
  const list = el("ul", { class: "list" });
  let wanted = null; // what is to be searched next, also when it is asked for during a search
  const form = el("form", {
    role: "search",
    onsubmit: (event) => {
      event.preventDefault();
      if (!field.value.trim()) { field.focus(); return; }
      wanted = field.value;
      busy(find, async () => {
        while (wanted !== null) {
          const text = wanted;
          wanted = null;
          const found = await ask("search", { text });
          const total = found.hits.length;
          count.textContent = total ? t("found", { count: total }) : found.nothing;
          list.replaceChildren(...found.hits.map(hit));
        }
      });
    },
  },
  el("label", { for: "words" }, t("search_label")),
  el("div", { class: "line" }, field, find),
  el("p", { class: "quiet", id: "words-hint" }, t("search_hint")));

  function hit(one) {
    const what = [one.kind === "fact" ? t("fact") : t("message"),
      one.by === "bot" ? t("bot") : t("you"), ...(one.retired ? [t("retired")] : [])];
    return el("li", { class: one.retired ? "card retired" : "card" },
      prose(one.text), prose(what.join(" · "), "quiet"),
      button(`${one.day}, ${one.time}`, () => { open("timeline"); goToDay(one.date); },
        { class: "link" }));
  }

  return { parts: [form, count, list], load: () => field.focus() };
}

// --- Timeline ----------------------------------------------------------------------------------

let goToDay = () => {};

function makeTimeline() {
  const day = el("input", { id: "day", type: "date" });
  const list = el("div", { class: "list" });
  const newest = button(t("newest"), () => { day.value = ""; fill(list, begin); });
  let next = null;
  let last = null;
  day.addEventListener("change", () => fill(list, begin));

  async function begin() {
    const page = await ask(day.value ? `timeline?${new URLSearchParams({ on: day.value })}`
      : "timeline");
    list.replaceChildren();
    last = null;
    show(page);
    if (!page.messages.length) list.replaceChildren(prose(t("no_messages"), "quiet"));
  }

  function show(page) {
    for (const message of page.messages) {
      if (message.date !== last) list.append(el("h2", {}, message.day));
      last = message.date;
      list.append(bubble(message));
    }
    next = page.next;
    if (next !== null) {
      list.append(more(async () => {
        const page_ = await ask(`timeline?${new URLSearchParams({ before: next })}`);
        list.querySelector(".more")?.remove();
        show(page_);
      }));
    }
  }

  function bubble(message) {
    const said = [message.by === "bot" ? t("bot") : t("you"), message.time,
      ...(message.private ? [t("private")] : [])];
    return el("article", { class: `bubble ${message.by}` },
      prose(said.join(" · "), "quiet"), prose(message.text));
  }

  goToDay = (date) => { day.value = date; fill(list, begin); };
  const head = el("div", { class: "line" }, el("label", { for: "day" }, t("date")), day, newest);
  return { parts: [head, list], load: () => fill(list, begin) };
}

// --- Menu --------------------------------------------------------------------------------------

function makeMenu() {
  const privacy = el("div");

  async function save(form) {
    const response = await call(`export/${form}`);
    const named = response.headers.get("Content-Disposition") ?? "";
    const name = /filename="([\w.-]+)"/.exec(named)?.[1] ?? `pomni.${form}`;
    const url = URL.createObjectURL(await response.blob());
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), KEPT_URL_MS);
    feel("success");
    say(t("exported", { name }));
  }

  const file = (label, form) => button(t(label), (made) => busy(made, () => save(form)));
  return {
    parts: [
      el("h2", {}, t("export")), prose(t("export_about")),
      el("div", { class: "doings" },
        file("export_markdown", "markdown"), file("export_json", "json")),
      prose(t("export_phone"), "quiet"),
      el("h2", {}, t("privacy")), privacy,
    ],
    load: () => fill(privacy, async () => {
      privacy.replaceChildren(prose((await ask("privacy")).text));
    }),
  };
}

// --- The page ----------------------------------------------------------------------------------

const MAKERS = { facts: makeFacts, search: makeSearch, timeline: makeTimeline, menu: makeMenu };
const ICONS = { facts: "✦", search: "⌕", timeline: "▤", menu: "⋯" };

function open(name) {
  shown = name;
  for (const [key, { section, tab }] of Object.entries(sections)) {
    section.hidden = key !== name;
    if (key === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  const opened = sections[name];
  if (!opened.loaded) {
    opened.loaded = true;
    opened.load();
  }
  window.scrollTo(0, 0);
  showBack();
}

function build() {
  const nav = el("nav", { "aria-label": t("sections") });
  const parts = [];
  for (const [name, make] of Object.entries(MAKERS)) {
    const made = make();
    const title = el("h1", { id: `title-${name}` }, t(name));
    const section = el("section", { "aria-labelledby": title.id, hidden: true },
      title, ...made.parts);
    const tab = button("", () => { feel("change"); open(name); });
    tab.append(el("span", { "aria-hidden": "true" }, ICONS[name]), t(name));
    sections[name] = { section, tab, load: made.load, loaded: false };
    nav.append(tab);
    parts.push(section);
  }
  main.replaceChildren(...parts);
  main.removeAttribute("aria-busy");
  document.body.prepend(nav);
}

function fail(sentence) {
  main.removeAttribute("aria-busy");
  if (sentence) problem.replaceChildren(prose(sentence));
  problem.hidden = false;
}

async function begin() {
  paint();
  telegram?.onEvent?.("themeChanged", paint);
  if (knows("6.1")) telegram.BackButton?.onClick(goBack);
  telegram?.ready?.();
  telegram?.expand?.();
  try {
    const told = await ask("start");
    texts = told.texts;
    kinds = told.kinds;
    document.documentElement.lang = told.language;
  } catch (error) {
    fail(error.message);
    return;
  }
  build();
  open("facts");
}

begin();

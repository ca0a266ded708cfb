// What is remembered: searched, sorted, pinned, corrected, forgotten.

import {
  Refused, ask, busy, button, el, feel, fill, kinds, more, note, prose, row, t,
} from "./base.js";
import { goBack, push, pushForm } from "./screens.js";
import { timelineAt } from "./talk.js";

const TYPING_MS = 300;

export function makeFacts() {
  const field = el("input", {
    type: "search", maxlength: "500", enterkeyhint: "search", dir: "auto", autocomplete: "off",
    placeholder: t("search"), "aria-label": t("find_fact"),
  });
  const sort = el("select", { "aria-label": t("sort") },
    el("option", { value: "kind" }, t("by_kind")), el("option", { value: "newest" }, t("by_time")));
  const chips = el("div", { class: "chips", role: "group", "aria-label": t("kinds") });
  const list = el("div", { class: "list" });
  const state = { kind: null, next: null, counts: {} };
  let typing;
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(load, TYPING_MS);
  });
  sort.addEventListener("change", () => { feel("change"); load(); });

  function load() {
    return fill(list, () => fetchPage(0), (page) => {
      list.replaceChildren();
      show(page);
      const isFound = field.value.trim() !== "";
      if (!page.facts.length) list.append(prose(t(isFound ? "no_fact" : "no_facts"), "quiet"));
    });
  }

  function fetchPage(offset) {
    const query = new URLSearchParams({ sort: sort.value, offset: String(offset) });
    if (state.kind !== null) query.set("kind", state.kind);
    const text = field.value.trim();
    return text ? ask(`facts/find?${query}`, { text }) : ask(`facts?${query}`);
  }

  function show(page) {
    for (const fact of page.facts) groupOf(fact).append(card(fact));
    state.next = page.next;
    if (state.next !== null) list.append(more(() => fetchPage(state.next), show));
    state.counts = page.counts;
    showChips();
  }

  // Kind by kind each has its heading; by time all are one group.
  function groupOf(fact) {
    const kind = sort.value === "kind" ? fact.kind : "";
    const last = [...list.querySelectorAll(".group")].at(-1);
    if (last?.dataset.kind === kind) return last;
    if (kind) list.append(el("h2", {}, kinds[kind] ?? kind));
    const group = el("ul", { class: "group", "data-kind": kind });
    list.append(group);
    return group;
  }

  function showChips() {
    const { counts } = state;
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    if (state.kind !== null) counts[state.kind] ??= 0;
    const named = [[null, t("all"), all], ...Object.entries(counts).map(
      ([kind, count]) => [kind, kinds[kind] ?? kind, count])];
    const focused = chips.contains(document.activeElement);
    const isChoice = named.length > 2 || state.kind !== null;
    chips.replaceChildren(...(isChoice ? named : []).map(([kind, label, count]) =>
      button(`${label} ${count}`, () => {
        state.kind = kind;
        feel("change");
        load();
      }, { "aria-pressed": String(kind === state.kind) })));
    if (focused) chips.querySelector('[aria-pressed="true"]')?.focus();
  }

  function card(fact) {
    const mark = el("span", { class: "mark", hidden: !fact.pinned }, `★ ${t("pinned")} · `);
    const source = t(fact.asked ? "asked" : "from_talk");
    const made = row(fact.text, [mark, `${fact.day} · ${source}`], () => details(fact, made, mark),
      { "data-fact": String(fact.id) });
    return made;
  }

  function details(fact, made, mark) {
    const before = fact.before.map((old) =>
      prose(old.until ? t("until", { day: old.until, text: old.text }) : t("before", old), "quiet"));
    const quote = fact.quote === fact.text ? null : el("figure", {},
      el("figcaption", { class: "quiet" }, t("said", { day: fact.day })),
      el("blockquote", { dir: "auto" }, fact.quote));
    const pin = button(t(fact.pinned ? "unpin" : "pin"), (pressed) => busy(pressed, async () => {
      const done = await ask(`facts/${fact.id}/pin`, { pinned: !fact.pinned });
      fact.pinned = done.pinned;
      mark.hidden = !fact.pinned;
      pin.textContent = t(fact.pinned ? "unpin" : "pin");
      feel("success");
    }));
    const source = fact.message === null ? null
      : button(t("show_source"), () => push(t("talk"), timelineAt({ message: fact.message })));
    return [quote, ...before, el("div", { class: "actions" },
      pin, button(t("correct"), () => correct(fact)), source,
      button(t("forget"), (pressed) => busy(pressed, () => forget(fact, made)),
        { class: "danger" }))].filter(Boolean);
  }

  async function forget(fact, made) {
    const done = await ask(`facts/${fact.id}/forget`, {});
    feel("success");
    const undo = done.undo === null ? null : async () => {
      const undone = await ask(`changes/${done.undo}/undo`, {});
      await load();
      return undone.text;
    };
    const group = made.parentElement;
    made.remove();
    if (done.texts.length > 1 || !group.children.length) await load(); // its message told others
    else {
      if (state.next !== null) state.next -= 1;
      state.counts[fact.kind] -= 1;
      showChips();
    }
    note(t("forgotten", { text: done.texts.join("; ") }), { undo });
  }

  function correct(fact) {
    const field = el("textarea", { rows: "3", maxlength: "4096", dir: "auto" });
    field.value = fact.text;
    pushForm({
      title: t("correct"), label: t("right"), field,
      submit: async (text) => {
        const done = await ask(`facts/${fact.id}/correct`, { text });
        if (done.fact === null) throw new Refused(done.text);
        await load();
        goBack();
        note(done.text, { undo: async () => {
          const undone = await ask(`facts/${done.fact}/undo`, {});
          await load();
          return undone.text;
        } });
      },
    });
  }

  return { parts: [el("div", { class: "tools" }, field, sort), chips, list], load };
}

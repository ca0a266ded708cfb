// What the bot will remind of: set in words, put off, moved, cancelled.

import { Refused, ask, busy, button, el, feel, fill, note, prose, row, t } from "./base.js";
import { goBack, pushForm } from "./screens.js";

const LATER = ["later_minutes", "later_hour", "later_tomorrow"]; // as the bot numbers them

export function makeReminders() {
  const list = el("div", { class: "list" });
  const add = button(`+ ${t("remind")}`, () => setNew(), { class: "link" });

  function load() {
    return fill(list, () => ask("reminders"), show);
  }

  function show({ waiting, came }) {
    const groups = [["waiting", waiting], ["came", came]].filter(([, some]) => some.length);
    list.replaceChildren(...groups.flatMap(([name, some]) => [
      el("h2", {}, t(name)),
      el("ul", { class: "group" }, ...some.map((one) => card(one, name === "waiting"))),
    ]));
    if (!waiting.length) list.prepend(prose(t("no_reminders"), "quiet"));
  }

  function card(one, waits) {
    const later = LATER.map((name, number) => [t(name), `later:${one.id}:${number}:${one.due}`]);
    return row(one.text, one.time, () => [
      el("p", { class: "quiet" }, t("later")),
      el("div", { class: "actions" }, ...later.map(([label, action]) => does(label, action))),
      waits ? el("div", { class: "actions" }, button(t("move"), () => move(one)),
        button(t("call_off"), (pressed) => busy(pressed, () => callOff(one)),
          { class: "danger" })) : null,
    ].filter(Boolean), { "data-reminder": String(one.id) });
  }

  // Asks for a change and shows the list after it; what it says.
  async function change(path, body) {
    const { text } = await ask(path, body);
    feel("success");
    await load();
    return text;
  }

  function does(label, action) {
    return button(label, (pressed) => busy(pressed, async () =>
      note(await change("buttons", { action }))));
  }

  async function callOff(one) {
    const text = await change("buttons", { action: `unremind:${one.id}:0` });
    note(text, { undo: () => change(`reminders/${one.id}/restore`, {}) });
  }

  function setNew() {
    const field = el("textarea", { rows: "2", maxlength: "1000", dir: "auto" });
    pushForm({
      title: t("remind"), label: t("remind_label"), hint: t("remind_hint"), field,
      submit: async (text) => {
        const reply = await ask("commands/remind", { text });
        if (!reply.done) throw new Refused(reply.text);
        await load();
        goBack();
        const [cancel] = reply.buttons;
        note(reply.text, { undo: () => change("buttons", { action: cancel.action }) });
      },
    });
  }

  function move(one) {
    const field = el("input", { type: "datetime-local", required: true });
    field.value = one.at;
    pushForm({
      title: t("move"), label: one.text, field,
      submit: async (text) => {
        const path = `reminders/${one.id}/move`;
        const done = await change(path, { text });
        goBack();
        note(done, { undo: () => change(path, { text: one.at }) });
      },
    });
  }

  return { parts: [add, list], load };
}

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
        does(t("call_off"), `unremind:${one.id}:0`, { class: "danger" })) : null,
    ].filter(Boolean), { "data-reminder": String(one.id) });
  }

  function does(label, action, attributes) {
    return button(label, (pressed) => busy(pressed, async () => {
      const reply = await ask("buttons", { action });
      feel("success");
      note(reply.text);
      await load();
    }), attributes);
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
        note(reply.text, { undo: cancel && (async () => {
          const undone = await ask("buttons", { action: cancel.action });
          await load();
          return undone.text;
        }) });
      },
    });
  }

  function move(one) {
    const field = el("input", { type: "datetime-local", required: true });
    field.value = one.at;
    pushForm({
      title: t("move"), label: one.text, field,
      submit: async (text) => {
        const done = await ask(`reminders/${one.id}/move`, { text });
        await load();
        goBack();
        note(done.text);
      },
    });
  }

  return { parts: [add, list], load };
}

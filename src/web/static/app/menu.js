// Settings, what is kept and who sees it, the way out with everything, and the end of it.

import {
  Refused, ask, busy, button, call, el, feel, fill, isOutside, note, prose, reason, t,
} from "./base.js";
import { end, goBack, push, pushForm } from "./screens.js";

const KEPT_URL_MS = 60 * 1000;
const PROGRESS_MS = 3000; // between two looks at an import

// A line that leads on, with what holds now at its end.
function way(label, onclick, value = "", name = "head") {
  const made = button("", onclick, { class: name });
  made.append(el("span", { class: "text" }, label), el("span", { class: "value" }, value));
  return el("li", { class: "row way" }, made);
}

export function makeMenu(begin) {
  const chosen = el("div", { class: "list" });
  const say = (command) => async () => {
    const body = el("div", { class: "group padded" });
    push(t(command), [body]);
    await fill(body, () => ask(`commands/${command}`, {}),
      (reply) => body.replaceChildren(prose(reply.text)));
  };

  function load() {
    return fill(chosen, () => ask("settings"), ({ settings }) => chosen.replaceChildren(
      el("ul", { class: "group" }, ...settings.map((one) =>
        way(one.title, () => (one.action === "zone" ? askZone(one) : choose(one)), one.value)))));
  }

  function choose(one) {
    const options = one.labels.map((label, number) =>
      button(label, (pressed) => busy(pressed, async () => {
        await ask("buttons", { action: `${one.action}:${number}` });
        feel("success");
        if (one.action === "language") { await begin("menu"); return; }
        await load();
        goBack();
      }), { class: "head", "aria-pressed": String(number === one.chosen) }));
    push(one.title, [
      el("ul", { class: "group" }, ...options.map((option) => el("li", { class: "row" }, option))),
      one.action === "mode" ? prose(t("mode_about"), "quiet") : null,
    ]);
  }

  function askZone(one) {
    const field = el("input", { type: "text", maxlength: "100", dir: "auto" });
    const settle = async (reply) => {
      await load();
      goBack();
      note(reply.text);
    };
    pushForm({
      title: one.title, label: t("zone_label"), hint: one.value, field,
      submit: async (text) => {
        const reply = await ask("commands/settings", { text });
        if (reply.buttons.length) {
          return [prose(reply.text), ...reply.buttons.map(({ label, action }) =>
            button(label, (pressed) => busy(pressed, async () =>
              settle(await ask("buttons", { action })))))];
        }
        if (!reply.done) throw new Refused(reply.text);
        return settle(reply);
      },
    });
  }

  async function save(form) {
    const response = await call(`export/${form}`);
    const named = response.headers.get("Content-Disposition") ?? "";
    const name = /filename="([\w.-]+)"/.exec(named)?.[1] ?? `pomni.${form}`;
    const url = URL.createObjectURL(await response.blob());
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), KEPT_URL_MS);
    feel("success");
    note(t("exported", { name }));
  }

  function takeAlong() {
    const file = (label, form) => el("li", { class: "row" },
      button(label, (made) => busy(made, () => save(form)), { class: "head" }));
    push(t("export"), [prose(t("export_about")), el("ul", { class: "group" },
      file(t("export_markdown"), "markdown"), file(t("export_json"), "json")),
    prose(t("export_phone"), "quiet")]);
  }

  function bringAlong() {
    const body = el("div", {});
    let followed = ""; // the import whose progress is shown
    const show = (reply) => body.replaceChildren(prose(reply.text),
      el("div", { class: "actions" }, ...reply.buttons.map(({ label, action }) =>
        button(label, (pressed) => busy(pressed, async () => {
          const next = await ask("buttons", { action });
          show(next);
          if (!next.buttons.length) await follow(action.split(":")[1]);
        })))));
    async function follow(number) {
      followed = number;
      while (followed === number && body.isConnected) {
        const now = await ask(`imports/${number}`);
        if (followed === number && now.text) show(now);
        if (!now.goes_on) return;
        await new Promise((wake) => setTimeout(wake, PROGRESS_MS));
      }
    }
    const field = el("input", { type: "file", "aria-label": t("import") });
    field.addEventListener("change", () => {
      const [file] = field.files;
      followed = "";
      if (file) fill(body, () => ask(`import?name=${encodeURIComponent(file.name)}`, file), show);
    });
    push(t("import"), [prose(t("import_about")), el("div", { class: "group padded" }, field, body)]);
  }

  // Asks twice, as the bot does; each answer is a button of its question.
  async function erase() {
    const body = el("div", { class: "group padded" });
    push(t("erase"), [body]);
    const show = (reply) => body.replaceChildren(prose(reply.text),
      el("div", { class: "actions" }, ...reply.buttons.map(({ label, action }) => {
        const isNo = action.startsWith("delete:0:");
        return button(label, (pressed) => busy(pressed, async () => {
          const told = await ask("buttons", { action });
          if (told.buttons.length) { show(told); return; }
          if (!isNo) { end(t("erase"), [prose(told.text)]); return; }
          goBack();
          note(told.text);
        }), { class: isNo ? "" : "danger" });
      })));
    await fill(body, () => ask("commands/delete_me", {}), show);
  }

  async function leave() {
    try {
      await ask("leave", {});
    } catch (error) {
      note(reason(error), { isWrong: true });
      return;
    }
    end(t("leave"), [prose(t("left"))]);
  }

  return {
    parts: [
      el("h2", {}, t("settings")), chosen,
      el("h2", {}, t("data")),
      el("ul", { class: "group" },
        way(t("about"), say("about")), way(t("today"), say("today")),
        way(t("privacy"), say("privacy")), way(t("usage"), say("usage")),
        way(t("export"), takeAlong), way(t("import"), bringAlong)),
      el("ul", { class: "group" }, isOutside ? way(t("leave"), leave) : null,
        way(t("erase"), erase, "", "head danger")),
    ],
    load,
  };
}

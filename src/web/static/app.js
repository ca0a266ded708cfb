// The memory as a page in Telegram: what opens first, and what holds for all of it.

import { ask, busy, knows, learn, paint, prose, t, telegram } from "./app/base.js";
import { makeFacts } from "./app/facts.js";
import { makeMenu } from "./app/menu.js";
import { makeReminders } from "./app/reminders.js";
import { build, goBack, open, push } from "./app/screens.js";
import { makeTalk, timelineAt } from "./app/talk.js";

const MAKERS = {
  facts: makeFacts, talk: makeTalk, reminders: makeReminders, menu: () => makeMenu(begin),
};

function fail(sentence) {
  const problem = document.getElementById("problem");
  document.getElementById("main").removeAttribute("aria-busy");
  if (sentence) problem.replaceChildren(prose(sentence));
  problem.hidden = false;
}

// Learn the language and its sentences, and show a section in it, or why that cannot be.
async function begin(section, refusal) {
  try {
    await learn();
  } catch (error) {
    fail(refusal ?? error.message);
    return;
  }
  build(MAKERS);
  open(section);
  const place = /^#msg-(\d+)$/.exec(location.hash); // from another assistant's search
  if (!place) return;
  history.replaceState(null, "", location.pathname);
  push(t("talk"), timelineAt({ message: place[1] }));
}

// Outside Telegram: a one-time link opens the page, once its button is pressed. What stands behind
// the # is sent to no server; it leaves the address at once.
function enter(link) {
  const asking = document.getElementById("enter");
  history.replaceState(null, "", location.pathname);
  document.getElementById("main").removeAttribute("aria-busy");
  asking.hidden = false;
  const open = asking.querySelector("button");
  open.addEventListener("click", () => busy(open, async () => {
    let refusal;
    try {
      await ask("enter", { link });
    } catch (error) {
      refusal = error.message; // but this browser may have used the link before
    }
    asking.remove();
    await begin("facts", refusal);
  }));
  open.focus();
}

paint();
telegram?.onEvent?.("themeChanged", paint);
if (knows("6.1")) {
  telegram.setHeaderColor?.("secondary_bg_color");
  telegram.setBackgroundColor?.("secondary_bg_color");
  telegram.BackButton?.onClick(goBack);
}
if (knows("7.7")) telegram.disableVerticalSwipes?.(); // a list is scrolled, not the page closed
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") goBack();
});
telegram?.ready?.();
telegram?.expand?.();
const link = /^#enter=([\w-]+)$/.exec(location.hash);
if (link && document.getElementById("enter")) enter(link[1]);
else begin("facts");

// Keys: j and k go from one item to the next, a letter presses the button of the item that has it, ? shows them all.
(() => {
  "use strict";
  let place = 0;

  const items = () => [...document.querySelectorAll("#main [data-item]")];
  const isTyping = (element) => element.closest("input, textarea, select, [contenteditable], dialog[open]") !== null;

  function go(to) {
    const found = items();
    if (!found.length) return;
    place = Math.max(0, Math.min(found.length - 1, to));
    found[place].focus();
    found[place].scrollIntoView({ block: "nearest" });
  }

  function press(key) {
    const item = document.activeElement?.closest("[data-item]") ?? items()[place];
    const button = item?.querySelector(`[data-key="${key}"]`) ??
      document.querySelector(`#said [data-key="${key}"], #frame [data-key="${key}"], #main > [data-key="${key}"]`);
    if (!button) return false;
    if (button.matches("summary")) {
      button.parentElement.open = true;
      button.parentElement.querySelector("textarea, input:not([type=hidden])")?.focus();
    } else {
      button.click();
    }
    return true;
  }

  function find() {
    const field = document.querySelector("input[type=search]");
    if (field) field.focus();
    else document.querySelector('nav a[href$="/search"]')?.click();
  }

  document.addEventListener("focusin", (event) => {
    const at = items().indexOf(event.target.closest("[data-item]"));
    if (at >= 0) place = at;
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const dialog = document.getElementById("keys");
    if (event.key === "Escape") {
      const opened = document.activeElement?.closest("details[open]");
      if (opened) { opened.open = false; opened.querySelector("summary").focus(); }
      else document.getElementById("beside")?.replaceChildren();
      return;
    }
    if (isTyping(event.target)) return;
    const at = items().indexOf(document.activeElement?.closest("[data-item]"));
    if (event.key === "?") dialog?.showModal();
    else if (event.key === "j") go(at < 0 ? 0 : at + 1);
    else if (event.key === "k") go(at < 0 ? 0 : at - 1);
    else if (event.key === "/") find();
    else if (event.key === "Enter" && document.activeElement?.matches("[data-item]")) press("Enter");
    else if (!/^[a-z]$/.test(event.key) || !press(event.key)) return;
    event.preventDefault();
  });

  // What was pressed is gone after it was done: the next one has its place.
  document.addEventListener("htmx:after:swap", () => {
    if (document.activeElement === document.body || document.activeElement === null) {
      const found = items();
      if (found.length && place > 0 || found[0]?.dataset.item === "review") go(Math.min(place, found.length - 1));
    }
  });
})();

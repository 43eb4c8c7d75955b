// Keys: j and k go from one item to the next, a letter presses the button of the item that has it, ? shows them all.
(() => {
  "use strict";
  let place = 0;
  let wasThere = false;  // whether anybody has been at an item
  let before = null;     // the items that were there when the last act was asked to be undone

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
      document.querySelector(`#beside [data-key="${key}"], #said [data-key="${key}"], #frame [data-key="${key}"], #main > [data-key="${key}"]`);
    if (!button) return false;
    if (button.matches("summary")) {
      button.parentElement.open = true;
      const field = button.parentElement.querySelector("textarea, input:not([type=hidden])");
      field?.focus();
      field?.setSelectionRange(field.value.length, field.value.length);
    } else if (button.form) {
      // What is on its way is waited for: the same key would be about another item, or about one that is gone.
      if (document.querySelector("form.htmx-request")) return true;
      before = key === "u" ? new Set(items().map((one) => one.id)) : null;
      button.click();
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
    if (at >= 0) { place = at; wasThere = true; }
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const dialog = document.getElementById("keys");
    if (event.key === "Escape") {
      const opened = document.activeElement?.closest("details[open]");
      if (opened) { opened.open = false; opened.querySelector("summary").focus(); }
      else if (document.querySelector("#beside > *")) document.getElementById("beside").replaceChildren();
      else document.getElementById("said")?.replaceChildren();
      return;
    }
    if (isTyping(event.target)) return;
    const at = items().indexOf(document.activeElement?.closest("[data-item]"));
    if (event.key === "?") dialog?.showModal();
    else if (event.key === "j") go(at < 0 ? 0 : at + 1);
    else if (event.key === "k") go(at < 0 ? 0 : at - 1);
    else if (event.key === "/") find();
    else if (event.key === "Enter" && document.activeElement?.matches("[data-item]")) press("Enter");
    else if (!/^[a-z]$/.test(event.key) || event.repeat || !press(event.key)) return;
    event.preventDefault();
  });

  // What stands beside the page can be closed without a keyboard too.
  function closable() {
    const beside = document.getElementById("beside");
    if (!beside?.firstElementChild || beside.querySelector(":scope > .close")) return;
    const close = document.createElement("button");
    close.className = "close";
    close.textContent = "Close";
    close.addEventListener("click", () => {
      beside.replaceChildren();
      items()[place]?.focus();
    });
    beside.prepend(close);
  }

  // What was pressed is gone after it was done: the next one has its place; or what came back, when that was undone.
  document.addEventListener("htmx:after:swap", (event) => {
    closable();
    // What was sent is said: a form that stays is empty again.
    const { sourceElement: form, response } = event.detail.ctx;
    if (form?.matches("form:has(textarea)") && response?.status < 300) form.reset();
    const found = items();
    const back = before ? found.find((one) => one.id && !before.has(one.id)) : undefined;
    if (back) {
      before = null;
      go(found.indexOf(back));
    } else if (document.activeElement === document.body || document.activeElement === null) {
      if (found.length && (wasThere || found[0].dataset.item === "review")) go(Math.min(place, found.length - 1));
    }
  });

  // Of a row that is wider than the screen one sees where one is.
  document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
})();

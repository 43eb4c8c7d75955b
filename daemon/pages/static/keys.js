// The hands of the window: keys, the palette, acts while the daemon is gone. Every page works without it.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  let place = 0;
  let wasThere = false;  // whether anybody has been at an item
  let before = null;     // the items that were there when the last act was asked to be undone

  const items = () => [...document.querySelectorAll("#main [data-item]")];
  const here = () => document.activeElement?.closest("[data-item]");
  const isTyping = (element) => element.closest("input, textarea, select, [contenteditable], dialog[open]") !== null;

  // ------------------------------------------------------------------------------------------------ items

  function go(to) {
    const found = items();
    if (!found.length) return;
    place = Math.max(0, Math.min(found.length - 1, to));
    found[place].focus();
    found[place].scrollIntoView({ block: "nearest" });
  }

  // A key acts on what is marked, on what stands beside the page, or on what was said; on nothing else.
  function press(key) {
    const wanted = `[data-key~="${key}"]`;
    const marked = [...document.querySelectorAll('#main [aria-selected="true"]')];
    if (marked.length && (key === "a" || key === "d")) return answerAll(marked, key);
    const button = here()?.querySelector(wanted) ??
      document.querySelector(`#beside ${wanted}, #said ${wanted}, #frame ${wanted}`);
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

  // Several that are marked are answered by one form, as one version.
  function answerAll(marked, key) {
    const form = marked[0].querySelector(`[data-key~="${key}"]`)?.form;
    if (!form || document.querySelector("form.htmx-request")) return true;
    for (const one of marked.slice(1)) {
      const field = Object.assign(document.createElement("input"), { type: "hidden", name: "number", value: one.dataset.number });
      form.append(field);
    }
    form.requestSubmit();
    return true;
  }

  function mark() {
    const item = here();
    if (!item?.dataset.number) return false;
    item.setAttribute("aria-selected", String(item.getAttribute("aria-selected") !== "true"));
    return true;
  }

  document.addEventListener("focusin", (event) => {
    const at = items().indexOf(event.target.closest("[data-item]"));
    if (at >= 0) { place = at; wasThere = true; }
  });

  function escape() {
    const opened = document.activeElement?.closest("details[open]");
    const beside = $("beside");
    if (opened) { opened.open = false; opened.querySelector("summary").focus(); }
    else if (beside?.firstElementChild) { beside.replaceChildren(); items()[place]?.focus(); }
    else $("said")?.replaceChildren();
  }

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return openPalette();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("#palette")) return paletteKey(event);
    if (event.key === "Escape") return escape();
    if (isTyping(event.target)) return;
    const at = items().indexOf(here());
    if (event.key === "?") $("keys")?.showModal();
    else if (event.key === "j") go(at < 0 ? 0 : at + 1);
    else if (event.key === "k") go(at < 0 ? 0 : at - 1);
    else if (event.key === "/") openPalette();
    else if (event.key === "x") { if (!mark()) return; }
    else if (event.key === "Enter" && document.activeElement?.matches("[data-item]")) press("Enter");
    else if (!/^[a-z]$/.test(event.key) || event.repeat || !press(event.key)) return;
    event.preventDefault();
  });

  // ------------------------------------------------------------------------------------------------ palette

  function openPalette() {
    const palette = $("palette");
    if (!palette) return;
    if (!palette.open) palette.showModal();
    $("find").select();
    $("find").focus();
  }

  function paletteKey(event) {
    const found = [...document.querySelectorAll("#found .found-one")];
    const at = found.indexOf(document.activeElement);
    if (event.key === "ArrowDown") (found[at + 1] ?? found[0])?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? found[at - 1] : $("find")).focus();
    else if (event.key === "Enter" && at < 0) found[0]?.click();
    else if (event.key === "Escape") $("palette").close();
    else return;
    event.preventDefault();
  }

  $("find-open")?.addEventListener("click", (event) => {
    event.preventDefault();
    openPalette();
  });
  document.addEventListener("click", ({ target }) => { if (target.closest("#beside > .close")) escape(); });
  // What was chosen is done on the page below.
  $("found")?.addEventListener("click", (event) => {
    if (event.target.closest(".found-one")) setTimeout(() => $("palette").close());
  });

  // ------------------------------------------------------------------------------------------------ the daemon is gone

  const held = [];  // the forms that were sent while it was gone, in order
  let isGone = false;
  let submitter = null;  // the button by which a form was sent last: it may be a field
  document.addEventListener("submit", (event) => { submitter = event.submitter; }, true);

  function gone() {
    if (isGone || !$("gone")) return;
    isGone = true;
    $("gone").querySelector("time").textContent = new Date().toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    $("gone").hidden = false;
    tellHeld();
    look();
  }

  // It is asked for something small that changes nothing.
  async function isThere() {
    try { return (await fetch($("icon").href, { cache: "no-store" })).ok; } catch { return false; }
  }

  async function look() {
    if (await isThere()) back();
    else setTimeout(look, 1000);
  }

  async function back() {
    isGone = false;
    $("gone").hidden = true;
    for (const one of held.splice(0)) {
      one.form?.classList.remove("not-sent");
      // A form whose page went stale is told so by the answer, as any other.
      await htmx.ajax("POST", one.action, { values: one.values, target: "#main", swap: "innerMorph" });
      if (one.form?.matches("form:has(textarea)")) one.form.reset();
    }
    document.body.dispatchEvent(new CustomEvent("changed"));
  }

  function tellHeld() {
    $("held").textContent = held.length ? `${held.length} not sent: ${held.length > 1 ? "they go" : "it goes"} when the daemon is back.` : "";
  }

  function hold(form) {
    const values = {};
    for (const [name, value] of new FormData(form)) (values[name] ??= []).push(value);
    if (submitter?.form === form && submitter.name) values[submitter.name] = [submitter.value];
    held.push({ form, action: form.getAttribute("action"), values });
    form.classList.add("not-sent");
    tellHeld();
  }

  for (const name of ["htmx:sse:error", "htmx:sse:close"]) document.addEventListener(name, () => setTimeout(async () => { if (!await isThere()) gone(); }, 300));
  document.addEventListener("htmx:error", (event) => {
    const form = event.detail?.ctx?.sourceElement;
    if (!event.detail?.ctx?.response) { if (form?.matches?.("form[method=post]")) hold(form); gone(); }
  });

  // ------------------------------------------------------------------------------------------------ after each answer

  // What was pressed is gone after it was done: the next one has its place; or what came back, when that was undone.
  document.addEventListener("htmx:after:swap", (event) => {
    // What was sent is said: a form that stays is empty again.
    const { sourceElement: form, response } = event.detail.ctx;
    if (form?.matches("form:has(textarea)") && response?.status < 300) form.reset();
    const found = items();
    const back = before ? found.find((one) => one.id && !before.has(one.id)) : undefined;
    if (back) {
      before = null;
      go(found.indexOf(back));
    } else if (wasThere && found.length && (document.activeElement === document.body || document.activeElement === null)) {
      go(Math.min(place, found.length - 1));
    }
  });
})();

// Memory: what is typed into the field of the search filters the lines that are shown; the slider chooses a day.
(() => {
  "use strict";
  function filter() {
    const lines = [...document.querySelectorAll("#lines .lines > li")];
    const words = document.getElementById("query")?.value.toLowerCase().split(/\s+/).filter(Boolean) ?? [];
    for (const line of lines) {
      line.hidden = !words.every((word) => line.textContent.toLowerCase().includes(word));
      line.toggleAttribute("data-item", !line.hidden);
    }
    for (const section of document.querySelectorAll("#lines section")) section.hidden = !section.querySelector("li:not([hidden])");
    const said = document.getElementById("filtered");
    const count = lines.filter((line) => !line.hidden).length;
    if (said) said.textContent = words.length ? `${count} of ${lines.length} lines; Enter searches everything.` : "";
  }

  function dayOf(slider) {
    const day = new Date(`${slider.dataset.first}T00:00:00Z`);
    day.setUTCDate(day.getUTCDate() + Number(slider.value));
    return day;
  }

  document.addEventListener("input", ({ target }) => {
    if (target.id === "query") filter();
    if (target.id !== "as-of") return;
    const day = dayOf(target);
    target.form.elements.as_of.value = day.toISOString().slice(0, 10);
    target.setAttribute("aria-valuetext", day.toLocaleDateString("en", { timeZone: "UTC", day: "numeric", month: "long", year: "numeric" }));
  });
  document.addEventListener("change", ({ target }) => { if (target.id === "as-of") target.form.requestSubmit(); });

  function ready() {
    document.getElementById("as-of")?.removeAttribute("hidden");
    filter();
  }
  document.addEventListener("htmx:after:swap", ready);
  ready();
})();

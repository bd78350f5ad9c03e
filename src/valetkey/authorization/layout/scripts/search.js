// The search of an area as a dialog: <a href="page of results" data-search>. It opens by a click, by
// Ctrl-K or Cmd-K, and by "/" outside of fields unless the page of results switched that key off.
// Pages without the menu have no such link. What it shows is that page: its sections are groups of a
// listbox, their links the options.
for (const link of document.querySelectorAll("a[data-search]")) {
  const key = "search-key";

  const make = (name, attributes, ...children) => {
    const element = document.createElement(name);
    for (const [each, value] of Object.entries(attributes)) element.setAttribute(each, value);
    element.append(...children);
    return element;
  };

  const input = make("input", {
    type: "search",
    name: "q",
    role: "combobox",
    maxlength: "200",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    dir: "auto",
    "aria-label": link.querySelector("span").textContent,
    "aria-autocomplete": "list",
    "aria-controls": "search-list",
    "aria-expanded": "false",
  });
  input.placeholder = input.ariaLabel;
  const close = make("button", { type: "button", class: "quiet small" }, "Esc");
  const state = make("p", { role: "status", class: "unseen" });
  const list = make("div", { id: "search-list", role: "listbox", "aria-label": input.ariaLabel });
  const none = make("p", { class: "none", hidden: "" });
  const form = make("form", { method: "get", action: link.getAttribute("href"), role: "search" }, input, close);
  const dialog = make("dialog", { class: "find-dialog", "aria-label": input.ariaLabel }, form, state, list, none);

  let options = [];
  let chosen = -1;
  let shown = null;
  let asked;
  let timer;

  const choose = (index) => {
    options[chosen]?.setAttribute("aria-selected", "false");
    chosen = index;
    const option = options[index];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
  };

  const show = (found, text) => {
    options = [];
    list.replaceChildren(
      ...[...found.querySelectorAll("section")].map((section, at) => {
        const title = make("p", { id: `search-group-${at}` }, section.querySelector("h2").textContent);
        const links = [...section.querySelectorAll("a")].map((each) => {
          const option = make(
            "a",
            {
              id: `search-option-${options.length}`,
              href: each.getAttribute("href"),
              role: "option",
              tabindex: "-1",
              "aria-selected": "false",
              class: each.className,
            },
            ...each.childNodes,
          );
          options.push(option);
          return option;
        });
        return make("div", { role: "group", "aria-labelledby": title.id }, title, ...links);
      }),
    );
    const empty = found.querySelector(".none");
    none.hidden = !empty;
    none.replaceChildren(...(empty ? empty.childNodes : []));
    list.hidden = Boolean(empty);
    state.textContent = (empty ? none : found.querySelector("[role=status]")).textContent.trim();
    input.setAttribute("aria-expanded", String(options.length > 0));
    list.scrollTop = 0;
    shown = text;
    choose(text && options.length ? 0 : -1);
  };

  const ask = async () => {
    const text = input.value.trim();
    asked?.abort();
    if (text === shown) return;
    asked = new AbortController();
    const { signal } = asked;
    const address = text ? `${form.action}?${new URLSearchParams({ q: text })}` : form.action;
    try {
      const answer = await fetch(address, { redirect: "manual", signal });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (!signal.aborted) show(page.getElementById("found"), text);
      } else if (answer.status !== 429 && answer.status < 500) {
        // The session ended: the page itself leads to the sign-in and back.
        location.assign(address);
      }
    } catch {
      // Without a response the key Enter still opens the page of results.
    }
  };

  const open = () => {
    if (!dialog.isConnected) document.body.append(dialog);
    if (dialog.open) return;
    dialog.showModal();
    input.focus();
    input.select();
    ask();
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 120);
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const last = options.length - 1;
    if (event.key === "ArrowDown" && last >= 0) choose(chosen < last ? chosen + 1 : 0);
    else if (event.key === "ArrowUp" && last >= 0) choose(chosen > 0 ? chosen - 1 : last);
    else if (event.key === "Enter" && options[chosen] && input.value.trim() === shown) options[chosen].click();
    // A browser would empty the field first.
    else if (event.key === "Escape") dialog.close();
    else return;
    event.preventDefault();
  });
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  const is_off = () => {
    try {
      return localStorage.getItem(key) === "off";
    } catch {
      return false;
    }
  };
  document.addEventListener("keydown", (event) => {
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    const quick = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
    if (!quick && !(event.key === "/" && plain && !typing && !is_off())) return;
    event.preventDefault();
    open();
  });
  for (const box of document.querySelectorAll("input[data-search-key]")) {
    box.closest("[hidden]").hidden = false;
    box.checked = !is_off();
    box.addEventListener("change", () => localStorage.setItem(key, box.checked ? "on" : "off"));
  }
}

// A list that follows what is new: <input type="checkbox" data-live="address" data-list="id">.
// The page at that address has the newest entries in an element of the same id. It ends with the
// session, and waits while the page is not seen.
for (const box of document.querySelectorAll("input[data-live]")) {
  const state = document.getElementById(box.dataset.state);
  let timer;
  const show = (fresh) => {
    const list = document.getElementById(box.dataset.list);
    const known = new Map([...list.querySelectorAll("li[id]")].map((each) => [each.id, each]));
    const found = [...fresh.querySelectorAll("li[id]")];
    const fits = known.size + found.length < 200 && found.some((each) => known.has(each.id));
    for (const each of found) if (known.size && !known.has(each.id)) each.classList.add("fresh");
    if (!fits) {
      list.replaceWith(fresh);
      return;
    }
    for (const each of found.reverse()) {
      const own = known.get(each.id);
      if (own) own.querySelector("time").replaceWith(each.querySelector("time"));
      else list.querySelector("ul").prepend(each);
    }
  };
  const update = async () => {
    let pause = 3000;
    try {
      const answer = document.hidden
        ? null
        : await fetch(box.dataset.live, {
            redirect: "manual",
            signal: AbortSignal.timeout(10000),
          });
      if (answer && answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        show(page.getElementById(box.dataset.list));
      } else if (answer && answer.status < 500 && answer.status !== 429) {
        box.checked = false;
        box.disabled = true;
        state.textContent = state.dataset.ended;
      } else if (answer) pause = 15000;
    } catch {
      pause = 15000;
    }
    if (box.checked) timer = setTimeout(update, pause);
  };
  box.closest("[hidden]").hidden = false;
  box.addEventListener("change", () => {
    clearTimeout(timer);
    state.textContent = box.checked ? state.dataset.on : "";
    if (box.checked) update();
  });
}

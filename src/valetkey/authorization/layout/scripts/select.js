// Select every entry of the page: <button data-select-all="id of the form" hidden>.
// Without script each entry is selected on its own.
for (const button of document.querySelectorAll("button[data-select-all]")) {
  const boxes = [...document.querySelectorAll(`input[type=checkbox][form="${button.dataset.selectAll}"]`)];
  const count = document.getElementById(button.dataset.count);
  const show = () => {
    const selected = boxes.filter((box) => box.checked).length;
    button.hidden = selected === boxes.length;
    if (count) count.textContent = selected;
  };
  for (const box of boxes) box.addEventListener("change", show);
  button.addEventListener("click", () => {
    for (const box of boxes) box.checked = true;
    show();
  });
  show();
}

// Add and remove entries of a list: <fieldset data-rows="name">, whose buttons reload the page without
// script. A form takes 100 fields; longer lists reload the page, which then shows a text area.
const MOST_ROWS = 60;
for (const list of document.querySelectorAll("fieldset[data-rows]")) {
  const id = list.dataset.rows.replaceAll("_", "-");
  const rows = () => [...list.querySelectorAll(".entry-row")];
  const number = () => {
    rows().forEach((row, place) => {
      for (const each of row.querySelectorAll("label, input")) {
        const text = each.matches("[for$='-text'], [id$='-text']") ? "-text" : "";
        each[each.htmlFor === undefined ? "id" : "htmlFor"] = `${id}-${place + 1}${text}`;
        if (each.matches("label")) each.textContent = each.textContent.replace(/\d+/, place + 1);
      }
      const button = row.querySelector("button");
      button.value = `${list.dataset.rows}/${place}`;
      button.setAttribute("aria-label", `${button.textContent} ${row.querySelector("input").value}`);
      button.hidden = place === rows().length - 1 && !row.querySelector("input").value;
    });
  };
  // What was said of a row is about the entry that it had.
  const forget = (row) => {
    for (const each of row.querySelectorAll(":scope > .hint, :scope > .message")) each.remove();
    for (const each of row.querySelectorAll("input")) {
      each.removeAttribute("aria-invalid");
      each.removeAttribute("aria-describedby");
    }
  };
  list.addEventListener("input", (event) => {
    const row = event.target.closest(".entry-row");
    if (row) forget(row);
    number();
  });
  list.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const all = document.querySelectorAll(".entry-row input").length;
    if (button?.name === "add" && all < MOST_ROWS) {
      event.preventDefault();
      const last = rows().at(-1);
      const row = last.cloneNode(true);
      forget(row);
      for (const each of row.querySelectorAll("input")) each.value = "";
      last.after(row);
      number();
      row.querySelector("input").focus();
    }
    if (button?.name === "remove" && rows().length > 1) {
      event.preventDefault();
      const row = button.closest(".entry-row");
      const next = row.nextElementSibling ?? row.previousElementSibling;
      row.remove();
      for (const each of rows()) forget(each);
      number();
      (next.matches(".entry-row") ? next : rows().at(-1)).querySelector("input").focus();
    }
  });
}

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

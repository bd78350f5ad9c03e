// A button that copies what the element beside it says: <button data-copy="id of the element" hidden>.
// Without script the button stays hidden, and the text can be selected as any other.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  if (!source || !navigator.clipboard) continue;
  button.hidden = false;
  const said = button.textContent;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText("value" in source ? source.value : source.textContent);
    } catch {
      return;
    }
    button.textContent = button.dataset.copied || said;
    setTimeout(() => { button.textContent = said; }, 2000);
  });
}

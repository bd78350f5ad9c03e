// A button that shows the password in the field beside it: <button data-show="id of the field" hidden>.
// The field is hidden again before its form is sent, so that no browser remembers it as plain text.
for (const button of document.querySelectorAll("button[data-show]")) {
  const field = document.getElementById(button.dataset.show);
  const show = button.textContent;
  const label = button.ariaLabel;
  const set = (shown) => {
    field.type = shown ? "text" : "password";
    button.textContent = shown ? button.dataset.hide : show;
    button.ariaLabel = shown ? button.dataset.hideLabel : label;
  };
  button.hidden = false;
  button.addEventListener("click", () => set(field.type === "password"));
  field.form.addEventListener("submit", () => set(false));
}

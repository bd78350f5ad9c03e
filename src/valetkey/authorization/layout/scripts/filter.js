// A field that hides what does not contain its words: <input type="search" data-filter="id" hidden>.
// It filters the labels in the element of that id; a heading without any left is hidden too.
for (const field of document.querySelectorAll("input[data-filter]")) {
  const list = document.getElementById(field.dataset.filter);
  field.hidden = false;
  field.addEventListener("keydown", (event) => {
    // The return key would send the form.
    if (event.key === "Enter") event.preventDefault();
  });
  field.addEventListener("input", () => {
    const words = field.value.toLocaleLowerCase().split(/\s+/);
    let heading = null;
    for (const each of list.children) {
      if (each.matches("h2")) {
        heading = each;
        heading.hidden = true;
        continue;
      }
      const text = each.textContent.toLocaleLowerCase();
      each.hidden = !words.every((word) => text.includes(word));
      if (heading && !each.hidden) heading.hidden = false;
    }
  });
}

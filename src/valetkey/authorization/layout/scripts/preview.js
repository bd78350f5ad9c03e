// A preview that follows a form: <form data-preview="id"> is sent with preview=yes, and the element
// of that id is replaced with the one of the response. <input type="color" data-colors="id"> chooses
// the text of another field.
for (const form of document.querySelectorAll("form[data-preview]")) {
  let timer;
  let asked = 0;
  const update = async () => {
    const own = ++asked;
    const fields = new URLSearchParams(new FormData(form));
    fields.set("preview", "yes");
    try {
      const answer = await fetch(form.action, {
        method: "POST",
        body: fields,
        redirect: "manual",
        signal: AbortSignal.timeout(10000),
      });
      if (!answer.ok || own !== asked) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document
        .getElementById(form.dataset.preview)
        .replaceWith(page.getElementById(form.dataset.preview));
    } catch {
      // The button shows the preview, too.
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, 300);
  });
}
for (const box of document.querySelectorAll("input[data-colors]")) {
  const field = document.getElementById(box.dataset.colors);
  box.hidden = false;
  box.addEventListener("input", () => {
    field.value = box.value;
  });
  field.addEventListener("input", () => {
    if (/^#[0-9a-f]{6}$/i.test(field.value)) box.value = field.value;
  });
}

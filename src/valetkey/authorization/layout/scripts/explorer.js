// A form that sends the request of its page: <form data-path data-method data-type>. Fields are named
// by their place, such as `path.uid`. The token is only in the field, until the page is left.
const shape = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};
for (const each of document.querySelectorAll("[data-explorer]")) each.hidden = false;
for (const form of document.querySelectorAll("form[data-path]")) {
  const token = form.elements.token;
  const [status, body, head] = form.querySelectorAll("[data-response]");
  const answered = form.querySelector("[data-answer]");
  addEventListener("pagehide", () => {
    token.value = "";
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    answered.hidden = true;
    if (!token.value.trim()) {
      status.textContent = form.dataset.missing;
      token.focus();
      return;
    }
    const headers = { Authorization: `Bearer ${token.value.trim()}` };
    if (form.dataset.type) headers["Content-Type"] = form.dataset.type;
    let path = form.dataset.path;
    const query = new URLSearchParams();
    for (const field of form.elements) {
      const [place, name] = (field.name || "").split(/\.(.*)/);
      const value = (field.value || "").trim();
      if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
      if (place === "query" && value) query.set(name, value);
      if (place === "header" && value) headers[name] = value;
    }
    const sent = form.elements.body ? form.elements.body.value : form.elements.file?.files[0];
    status.textContent = form.dataset.sending;
    try {
      const answer = await fetch(query.size ? `${path}?${query}` : path, {
        method: form.dataset.method,
        headers,
        body: sent,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        signal: AbortSignal.timeout(20000),
      });
      const text = await answer.text();
      status.textContent = `${answer.status} ${answer.statusText}`;
      head.textContent = [...answer.headers].map(([name, said]) => `${name}: ${said}`).join("\n");
      body.textContent = shape(text);
      body.hidden = !text;
      answered.hidden = false;
    } catch (error) {
      status.textContent = `${form.dataset.failed} ${error.message}`;
    }
  });
}

// The forms that send the requests of this page. The token is only in the field, until the page is left.
const token = document.getElementById("access-token");
const shape = (text) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };
for (const each of document.querySelectorAll("[data-explorer]")) each.hidden = false;
addEventListener("pagehide", () => { token.value = ""; });
for (const form of document.querySelectorAll("form[data-path]")) {
  const value = (name) => (form.elements[name]?.value ?? "").trim();
  const [status, head, body] = form.querySelectorAll("[data-response]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    head.parentElement.hidden = true;
    const bearer = token.value.trim();
    if (!bearer) {
      status.textContent = "Enter an access token first.";
      token.focus();
      return;
    }
    const headers = { Authorization: `Bearer ${bearer}` };
    if (value("if-match")) headers["If-Match"] = value("if-match");
    if (form.elements.body) headers["Content-Type"] = form.dataset.type;
    const query = value("query").replace(/^\?/, "");
    const path = form.dataset.path.replace("{id}", encodeURIComponent(value("id")));
    status.textContent = "Sending …";
    try {
      const answer = await fetch(query ? `${path}?${query}` : path, {
        method: form.dataset.method, headers, body: form.elements.body?.value,
        cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(20000),
      });
      const text = await answer.text();
      status.textContent = `${answer.status} ${answer.statusText}`;
      head.textContent = [...answer.headers].map(([name, said]) => `${name}: ${said}`).join("\n");
      body.textContent = text ? shape(text) : "(no content)";
      head.parentElement.hidden = false;
    } catch (error) {
      status.textContent = `The request was not sent or not answered: ${error.message}`;
    }
  });
}

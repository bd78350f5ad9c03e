// Forms that make or show a passkey: <form data-passkey="get" or "create" data-options="JSON">.
// What the browser answers is put into the field `credential`, and the form is sent as any other.
// Without script, or without passkeys in the browser, the button stays hidden.
const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
  .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

const read = (options) => {
  const said = JSON.parse(options);
  said.challenge = bytes(said.challenge);
  if (said.user) said.user.id = bytes(said.user.id);
  for (const list of ["excludeCredentials", "allowCredentials"]) {
    if (said[list]) said[list] = said[list].map((each) => ({ ...each, id: bytes(each.id) }));
  }
  return said;
};

const write = (credential) => {
  const response = {};
  for (const part of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[part]) response[part] = text(credential.response[part]);
  }
  return JSON.stringify({ type: credential.type, rawId: text(credential.rawId), response });
};

let waiting = null;

const ask = async (form, more) => {
  waiting?.abort();
  waiting = new AbortController();
  const publicKey = read(form.dataset.options);
  const verb = form.dataset.passkey === "create" ? "create" : "get";
  const credential = await navigator.credentials[verb]({ publicKey, signal: waiting.signal, ...more });
  form.elements.credential.value = write(credential);
  form.submit();
};

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!window.PublicKeyCredential) continue;
  const failed = form.querySelector("[data-failed]");
  form.querySelector("button").hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (failed) failed.hidden = true;
    try {
      await ask(form, {});
    } catch (error) {
      if (failed && error.name !== "AbortError") failed.hidden = false;
    }
  });
  // Where a field says so, the browser offers passkeys among its suggestions.
  if (form.dataset.passkey === "get" && document.querySelector("[autocomplete~=webauthn]")) {
    PublicKeyCredential.isConditionalMediationAvailable?.().then((can) => {
      if (can && !waiting) ask(form, { mediation: "conditional" }).catch(() => {});
    });
  }
}

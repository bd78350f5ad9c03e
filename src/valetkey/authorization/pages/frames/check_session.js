"use strict";
(() => {
  const cookie = "COOKIE=";
  const mark = () => {
    const found = document.cookie.split("; ").find((pair) => pair.startsWith(cookie));
    return found === undefined ? "" : found.slice(cookie.length);
  };
  const judge = async (asked, origin) => {
    // <client id> <hash>.<salt>
    const parts = typeof asked === "string" ? /^(\S+) ([^\s.]+)\.([^\s.]+)$/.exec(asked) : null;
    if (parts === null) {
      return "error";
    }
    const now = mark();
    // A browser that hides our cookies from frames knows nothing: no reason to sign anyone out.
    if (now === "" && document.hasStorageAccess && !(await document.hasStorageAccess())) {
      return "error";
    }
    const text = new TextEncoder().encode([parts[1], origin, now, parts[3]].join(" "));
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
    const hash = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return hash === parts[2] ? "unchanged" : "changed";
  };
  window.addEventListener("message", (event) => {
    if (event.source === null || event.origin === "null") {
      return;
    }
    const answer = (said) => event.source.postMessage(said, event.origin);
    judge(event.data, event.origin).then(answer, () => answer("error"));
  });
})();

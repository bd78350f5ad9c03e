// Moments in the zone of this device where the account names none, and a button that fills it in.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const language = document.documentElement.lang || undefined;
for (const element of document.querySelectorAll("time[data-zoneless]")) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) continue;
  element.title = at.toLocaleString(language, { dateStyle: "full", timeStyle: "long" });
  const form = { day: { dateStyle: "medium" }, exact: { dateStyle: "medium", timeStyle: "long" } };
  const shown = form[element.dataset.zoneless];
  // As the server writes dates: 21 Nov 2026.
  if (shown) element.textContent = at.toLocaleString(language === "en" ? "en-GB" : language, shown);
}
for (const button of document.querySelectorAll("button[data-zone]")) {
  const field = document.getElementById(button.dataset.zone);
  if (!field || !zone || field.value === zone) continue;
  button.hidden = false;
  button.addEventListener("click", () => {
    field.value = zone;
    field.focus();
  });
}

// Shows the number of the bar under the pointer, and of the bar that the arrow keys choose.
// Without script a chart is an image with a label, and the page has the numbers in a table.
for (const figure of document.querySelectorAll("figure[data-points]")) {
  const points = figure.dataset.points.split("\n");
  const svg = figure.querySelector("svg");
  const mark = svg.querySelector(".mark");
  const reading = figure.querySelector(".reading");
  let at = points.length - 1;
  const show = (place) => {
    at = Math.max(0, Math.min(points.length - 1, place));
    mark.setAttribute("x", at * 10);
    mark.setAttribute("width", 10);
    reading.textContent = points[at];
    reading.hidden = false;
    svg.setAttribute("aria-valuenow", at + 1);
    svg.setAttribute("aria-valuetext", points[at]);
  };
  const hide = () => {
    if (document.activeElement === svg) return;
    mark.setAttribute("width", 0);
    reading.hidden = true;
  };
  const keys = {
    ArrowLeft: () => at - 1,
    ArrowDown: () => at - 1,
    ArrowRight: () => at + 1,
    ArrowUp: () => at + 1,
    PageDown: () => at - 7,
    PageUp: () => at + 7,
    Home: () => 0,
    End: () => points.length - 1,
  };
  svg.setAttribute("role", "slider");
  svg.setAttribute("tabindex", 0);
  svg.setAttribute("aria-valuemin", 1);
  svg.setAttribute("aria-valuemax", points.length);
  show(at);
  hide();
  svg.addEventListener("pointermove", (event) => {
    const place = svg.getBoundingClientRect();
    show(Math.floor(((event.clientX - place.left) / place.width) * points.length));
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("focus", () => show(at));
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    show(keys[event.key]());
  });
}

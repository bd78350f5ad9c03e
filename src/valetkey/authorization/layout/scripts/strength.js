// How strong a new password is, while it is typed: <p data-strength="id of the field" hidden> with a
// meter and an output. A guess that costs nothing: what is really refused, the server says.
for (const place of document.querySelectorAll("[data-strength]")) {
  const field = document.getElementById(place.dataset.strength);
  const meter = place.querySelector("meter");
  const said = place.querySelector("output");
  if (!field || !meter || !said) continue;
  const shortest = Number(place.dataset.shortest) || 8;
  const judge = () => {
    const letters = [...field.value];
    place.hidden = letters.length === 0;
    let size = 0;
    for (const [kind, count] of [[/[a-z]/, 26], [/[A-Z]/, 26], [/[0-9]/, 10], [/[^A-Za-z0-9]/, 33]]) {
      if (kind.test(field.value)) size += count;
    }
    // Repeated letters and rows such as abcd or 4321 add next to nothing.
    let worth = 0;
    letters.forEach((letter, place) => {
      const step = place && Math.abs(letter.codePointAt(0) - letters[place - 1].codePointAt(0));
      worth += place && step <= 1 ? 0.3 : 1;
    });
    worth *= Math.min(1, (new Set(letters).size + 3) / (letters.length || 1) + 0.3);
    const bits = worth * Math.log2(size || 1);
    const level = letters.length < shortest ? 0 : bits < 40 ? 1 : bits < 60 ? 2 : bits < 80 ? 3 : 4;
    meter.value = level;
    const word = place.dataset[`level${level}`] || "";
    if (said.textContent !== word) said.textContent = word;
  };
  field.addEventListener("input", judge);
  judge();
}

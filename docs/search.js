// The search of the documentation site: a worker that answers the search box of Zensical.
// Messages: 0 the index, answered by 1; 2 a query, answered by 3; 4 is an error.
// Pages are ranked by BM25 over titles, keywords and text, times the weight of their section.
"use strict";
(() => {
  const FIELDS = { title: 6, page: 4, keywords: 5, text: 1 };
  const IGNORED = new Set(
    ("a an and are as at be been by can could did do does for from get got had has have how i if in is it its me my of on or" +
      " our should so that the their them then there these they this to up use want was we what when where which who why" +
      " will with you your").split(" "),
  );
  const PAGE_SIZE = 10;
  const SATURATION = 1.2;
  let sections = [];
  let postings = new Map();

  const stem = (word) => {
    const short = word.replace(/(?<=..)ies$/, "y").replace(/(?<=[^s].)s$/, "");
    const root = short.replace(/(?<=...)(?:ing|ed)$/, "").replace(/(?<=...)([^aeiouls])\1$/, "$1");
    return root.replace(/(?<=...)e$/, "");
  };

  function* words(text) {
    for (const found of text.matchAll(/<[^>]*>|&\w+;|[\p{L}\p{N}]+/gu)) {
      if (found[0][0] !== "<" && found[0][0] !== "&")
        yield { stem: stem(found[0].toLowerCase()), start: found.index, end: found.index + found[0].length };
    }
  }

  function load(items) {
    sections = items;
    postings = new Map();
    items.forEach((item, id) => {
      const path = item.path || [];
      const texts = {
        title: item.title,
        page: path[path.length - 1] || "",
        keywords: item.level === 1 ? item.keywords || "" : "",
        text: item.text,
      };
      const length = 1 + Math.sqrt(item.text.length / 700);
      for (const [field, weight] of Object.entries(FIELDS)) {
        for (const word of words(texts[field])) {
          if (!postings.has(word.stem)) postings.set(word.stem, new Map());
          const found = postings.get(word.stem);
          const once = field === "text" ? weight / length : weight;
          found.set(id, (found.get(id) || 0) + once);
        }
      }
    });
  }

  // The last word may be unfinished; a word that occurs nowhere may be misspelt.
  function meant(word, unfinished) {
    const exact = postings.has(word) ? [word] : [];
    if (unfinished && word.length > 2)
      for (const known of postings.keys()) if (known.startsWith(word) && known !== word) exact.push(known);
    if (exact.length || word.length < 4) return exact;
    return [...postings.keys()].filter((known) => oneEditApart(known, word));
  }

  function oneEditApart(one, other) {
    if (Math.abs(one.length - other.length) > 1) return false;
    let i = 0;
    while (i < one.length && one[i] === other[i]) i++;
    const [a, b] = [one.slice(i), other.slice(i)];
    const swapped = a.length > 1 && a[0] === b[1] && a[1] === b[0] && a.slice(2) === b.slice(2);
    return swapped || a.slice(1) === b.slice(1) || a === b.slice(1) || a.slice(1) === b;
  }

  function ranked(input) {
    const all = [...words(input)];
    const asked = all.filter((word) => !IGNORED.has(input.slice(word.start, word.end).toLowerCase()));
    const terms = asked.length ? asked : all;
    const scores = new Map();
    const stems = new Set();
    terms.forEach((term) => {
      const best = new Map();
      const unfinished = term.end === input.length;
      for (const known of meant(term.stem, unfinished)) {
        stems.add(known);
        const found = postings.get(known);
        const rarity = Math.log(1 + sections.length / found.size) * (known === term.stem ? 1 : 0.5);
        for (const [id, count] of found)
          best.set(id, Math.max(best.get(id) || 0, (rarity * count) / (count + SATURATION)));
      }
      for (const [id, score] of best) {
        const before = scores.get(id) || { score: 0, matched: 0 };
        scores.set(id, { score: before.score + score, matched: before.matched + 1 });
      }
    });
    const pages = new Map();
    for (const [id, { score, matched }] of scores) {
      const { location, level, weight } = sections[id];
      const page = location.split("#")[0];
      const total = score * (matched / terms.length) ** 1.5 * (weight || 1) * (level === 1 ? 1.1 : 1);
      const before = pages.get(page);
      if (!before || total > before.total) pages.set(page, { id, total });
    }
    return { found: [...pages.values()].sort((a, b) => b.total - a.total || a.id - b.id), stems };
  }

  function highlighted(text, stems) {
    const ranges = [];
    for (const { stem, start, end } of words(text))
      if (stems.has(stem)) ranges.push({ start, end, value: end - start });
    return ranges;
  }

  function answer({ input, page }) {
    const text = typeof input === "string" ? input.trimStart() : "";
    const { found, stems } = ranked(text);
    const from = (page && page.from) || 0;
    const shown = found.slice(from, from + PAGE_SIZE);
    const matches = (id) =>
      ["title", "path", "text"]
        .map((field) => {
          const value = sections[id][field] || "";
          return { id, field, value: { highlight: { ranges: highlighted([].concat(value).join(""), stems) } } };
        })
        .filter((match) => match.value.highlight.ranges.length);
    const place = (start) => ({ id: text, size: PAGE_SIZE, from: start });
    return {
      items: shown.map(({ id }) => ({ id, matches: matches(id) })),
      query: { select: { documents: [], terms: [] }, values: [] },
      aggregations: [],
      pagination: {
        total: found.length,
        prev: from ? place(Math.max(0, from - PAGE_SIZE)) : undefined,
        next: from + PAGE_SIZE < found.length ? place(from + PAGE_SIZE) : undefined,
      },
    };
  }

  self.onmessage = ({ data: { type, data } }) => {
    try {
      if (type === 0) {
        load(data.items);
        self.postMessage({ type: 1 });
      } else if (type === 2) self.postMessage({ type: 3, data: answer(data) });
    } catch {
      self.postMessage({ type: 4 });
    }
  };
})();

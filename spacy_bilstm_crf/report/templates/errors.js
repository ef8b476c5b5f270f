(() => {
  "use strict";
  const rows = JSON.parse(document.getElementById("mistakes").textContent);
  const kinds = JSON.parse(document.getElementById("kind-names").textContent);
  const PAGE = 50;
  const $ = (id) => document.getElementById(id);
  const body = document.querySelector("#errors tbody");
  const state = { key: "prob", down: true, page: 0 };
  const prob = (row) => (row.p ? (row.p[3] === null ? 1 : row.p[3]) : -1e-6 - (row.g[3] || 0));
  const keys = {
    kind: (row) => kinds[row.k],
    gold: (row) => (row.g ? row.g[2] : "~"),
    predicted: (row) => (row.p ? row.p[2] : "~"),
    prob,
    doc: (row) => row.d,
  };
  rows.forEach((row, i) => { row.i = i; row.s = prob(row); row.l = row.t.toLowerCase(); });
  let found = rows;

  function filter() {
    const kind = $("kind").value, label = $("label").value, words = $("words").value.trim().toLowerCase();
    found = rows.filter((row) =>
      (kind === "" || row.k === Number(kind)) &&
      (label === "" || (row.g && row.g[2] === label) || (row.p && row.p[2] === label)) &&
      (words === "" || row.l.includes(words)));
    sort();
  }

  function sort() {
    const key = keys[state.key], sign = state.down ? -1 : 1;
    found.sort((a, b) => {
      const x = key(a), y = key(b);
      return (x < y ? -sign : x > y ? sign : 0) || a.i - b.i;
    });
    state.page = 0;
    show();
  }

  function cell(name, text, className) {
    const td = document.createElement("td");
    td.dataset.name = name;
    if (className) td.className = className;
    td.textContent = text;
    return td;
  }

  function context(row) {
    const td = cell("Text", "", "c");
    const edges = new Set([0, row.t.length]);
    for (const span of [row.g, row.p]) if (span) { edges.add(span[0]); edges.add(span[1]); }
    const cuts = [...edges].sort((a, b) => a - b);
    for (let i = 0; i + 1 < cuts.length; i++) {
      const within = (span) => span && span[0] <= cuts[i] && cuts[i + 1] <= span[1];
      const name = (within(row.g) ? "g" : "") + (within(row.p) ? "p" : "");
      const text = row.t.slice(cuts[i], cuts[i + 1]);
      if (!name) { td.append(text); continue; }
      const mark = document.createElement("mark");
      mark.className = name;
      mark.title = { g: "gold", p: "predicted", gp: "gold and predicted" }[name];
      mark.textContent = text;
      td.append(mark);
    }
    return td;
  }

  const figure = (value) => (value === null || value === undefined ? "" : value.toFixed(3));
  const entity = (row, span) => (span ? `${span[2]}: ${row.t.slice(span[0], span[1])}` : "none");

  function show() {
    const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    state.page = Math.min(Math.max(0, state.page), last);
    const part = found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    body.replaceChildren(...part.map((row) => {
      const tr = document.createElement("tr");
      tr.append(
        cell("Kind", kinds[row.k]), cell("Gold", entity(row, row.g)), cell("P(gold)", figure(row.g && row.g[3]), "n"),
        cell("Predicted", entity(row, row.p)), cell("P(predicted)", figure(row.p && row.p[3]), "n"),
        context(row), cell("Document", row.d, "n"));
      return tr;
    }));
    const first = found.length ? state.page * PAGE + 1 : 0;
    $("count").textContent = `${first.toLocaleString("en")}–${(first + part.length - (found.length ? 1 : 0)).toLocaleString("en")} of ` +
      `${found.length.toLocaleString("en")} (${rows.length.toLocaleString("en")} in all)`;
    $("previous").disabled = state.page === 0;
    $("next").disabled = state.page >= last;
    for (const th of document.querySelectorAll("#errors th[data-key]")) {
      const is = th.dataset.key === state.key;
      th.setAttribute("aria-sort", is ? (state.down ? "descending" : "ascending") : "none");
    }
    $("sort").value = `${state.key} ${state.down ? "down" : "up"}`;
  }

  function sortBy(key, down) { state.key = key; state.down = down; sort(); }
  for (const th of document.querySelectorAll("#errors th[data-key]")) {
    th.querySelector("button").addEventListener("click", () => {
      const key = th.dataset.key;
      sortBy(key, state.key === key ? !state.down : key === "prob");
    });
  }
  $("sort").addEventListener("change", () => { const [key, way] = $("sort").value.split(" "); sortBy(key, way === "down"); });
  for (const id of ["kind", "label"]) $(id).addEventListener("change", filter);
  $("words").addEventListener("input", filter);
  $("previous").addEventListener("click", () => { state.page -= 1; show(); });
  $("next").addEventListener("click", () => { state.page += 1; show(); });
  filter();
})();

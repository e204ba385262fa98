// Tables that a reader sorts: buttons in the heads, by mouse and by keyboard.
//
// A table of the page becomes one by the attribute `data-sortable`. A cell is sorted by its `data-value`, or else by its
// text, as a number where that begins with one. `data-fixed` on a head leaves its column alone; `data-first` is the
// direction that its first press sorts in.

const COLLATOR = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

// Order of two keys; what is missing comes last in either direction.
function ordered(first, second, descending) {
  const none = (key) => key === null || key === undefined || key === "";
  if (none(first) || none(second)) return none(first) - none(second);
  const difference = typeof first === "number" && typeof second === "number" ? first - second : COLLATOR.compare(first, second);
  return descending ? -difference : difference;
}

// `rows` in the order of `key(row)`; rows with equal keys stay as they were.
function sorted(rows, key, descending) {
  return rows.map((row) => [key(row), row]).sort((a, b) => ordered(a[0], b[0], descending)).map(([, row]) => row);
}

// A button in each head of `heads`; `chosen(head, descending)` is called when one is pressed.
function sortHeads(heads, chosen) {
  for (const head of heads) {
    const button = make("button", { type: "button", class: "sort", onclick: () => {
      const was = head.getAttribute("aria-sort");
      const first = head.dataset.first === "descending";
      chosen(head, was ? was === "ascending" : first);
    } });
    button.append(...head.childNodes);
    head.append(button);
  }
}

// Say in the heads which column the table is sorted by.
function markSorted(heads, head, descending) {
  for (const each of heads) each.removeAttribute("aria-sort");
  head?.setAttribute("aria-sort", descending ? "descending" : "ascending");
}

function cellKey(cell) {
  if (!cell) return null;
  const text = (cell.dataset.value ?? cell.textContent).trim();
  const number = parseFloat(text.replace(/^[>+~]\s*/, "").replace("−", "-").replaceAll(",", ""));
  return text === "—" ? null : Number.isNaN(number) ? text : number;
}

function sortable(element) {
  const heads = [...element.tHead.rows[0].cells].filter((head) => !("fixed" in head.dataset));
  sortHeads(heads, (head, descending) => {
    const { tHead, tBodies: [body] } = head.closest("table");
    body.append(...sorted([...body.rows], (row) => cellKey(row.cells[head.cellIndex]), descending));
    markSorted([...tHead.rows[0].cells], head, descending);
  });
}

document.querySelectorAll("table[data-sortable]").forEach(sortable);

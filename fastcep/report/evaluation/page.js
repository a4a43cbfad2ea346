// Sorts a table of class "sorted" by the column whose head is clicked. Without scripts, the table keeps its order.
for (const head of document.querySelectorAll("table.sorted thead th")) {
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const each of head.parentNode.children) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.cells[head.cellIndex].dataset.value ?? row.cells[head.cellIndex].textContent;
    const number = text => (text === "" ? -Infinity : Number(text));
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      const by = isNaN(number(x)) || isNaN(number(y)) ? x.localeCompare(y) : number(x) - number(y);
      return down ? -by : by;
    };
    body.append(...[...body.rows].sort(compare));
  });
}

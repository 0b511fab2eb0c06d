// Sorts a table by the column whose head is clicked; without it tables are as they were written.
document.addEventListener("click", (event) => {
  const head = event.target.closest("table.sortable th");
  if (!head) return;
  const table = head.closest("table");
  const column = [...head.parentNode.children].indexOf(head);
  const upwards = head.getAttribute("aria-sort") !== "ascending";
  const value = (row) => row.children[column].textContent.trim();
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    const order = x !== "" && y !== "" && !isNaN(parseFloat(x)) && !isNaN(parseFloat(y))
      ? parseFloat(x) - parseFloat(y) : x.localeCompare(y);
    return upwards ? order : -order;
  });
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
  body.append(...rows);
});

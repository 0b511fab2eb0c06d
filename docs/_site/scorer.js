// How results of a search are ordered. Sphinx gives a word in any heading of a page the same score,
// and orders equal scores by name, so that the changelog came before the page that explains a thing.
const ABOUT_THE_PROJECT = /^(results\/|one_row|design|reference\/(changelog|citing|compatibility|contributing|decisions|experiments))/;

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, , , , score, , kind]) => {
    if (kind === "title") score += 10; // the heading has the words as they were typed
    if (!page.startsWith("reference/")) score += 12; // explained, not listed
    if (page === "limits") score -= 1; // questions, whose answers lead to pages
    if (ABOUT_THE_PROJECT.test(page)) score -= 30;
    return score;
  },
};

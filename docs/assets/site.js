// What the theme leaves out for keys and readers of screens: its rows of copy buttons are no landmarks of the
// page, and what scrolls sideways can be reached by Tab.
function mend() {
  for (const row of document.querySelectorAll(".md-code__nav:not([role])")) row.setAttribute("role", "none");
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
  for (const head of document.querySelectorAll(".md-typeset th:empty")) head.replaceWith(document.createElement("td"));
}

new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mend);
mend();

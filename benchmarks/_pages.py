"""Tables in pages of the documentation: they stand between two marks, and scripts that measure replace them."""

import re


def between_marks(page: str, mark: str, text: str) -> str:
    """A page with a text between ``<!-- mark -->`` and the end mark that follows."""
    start, end = f"<!-- {mark} -->", "<!-- end -->"
    found = re.fullmatch(f"(.*?{start}).*?({end}.*)", page, flags=re.DOTALL)
    if found is None:
        raise ValueError(f"between_marks: the page must have the marks {start} and {end}, got none.")
    return f"{found[1]}\n\n{text}\n\n{found[2]}"

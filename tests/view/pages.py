"""Reads a page as a browser does."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """The tags of a page and the text of its scripts; what stays open; what it fetches."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.scripts, self.fetched, self.open = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.fetched += [value for name, value in attributes if name in ("src", "href")]
        if tag == "script":
            self.scripts.append("")
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        """Such as `<line/>`."""

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

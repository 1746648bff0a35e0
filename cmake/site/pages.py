"""Pages of the repository as MkDocs reads them.

README.md is the page index.md, and CHANGELOG.md the page changelog.md. Links between pages lead to pages of the site;
links to other files of the repository, which the site does not have, become their names. The API reference that Doxygen
has written beside the site is part of it."""
import os
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}  # beside those of docs/
STYLE = ".md-grid { max-width: 80rem; }"  # blocks have up to 120 columns
source = pathlib.Path(__file__).resolve().parents[2]


def on_config(config):
    reference = pathlib.Path(config.site_dir).with_name("html")
    config.extra["reference"] = [path for path in reference.rglob("*") if path.is_file()] and reference
    if config.extra["reference"]:
        config.nav.append({"API reference": "reference/namespacemn.html"})


def on_files(files, config):
    files.append(File.generated(config, "style.css", content=STYLE))
    for name, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(source / name)))
    reference = config.extra["reference"]
    for path in reference.rglob("*") if reference else []:
        if path.is_file():
            files.append(File.generated(config, f"reference/{path.relative_to(reference)}", abs_src_path=str(path)))


def site_path(name):
    """The path in the site of a file of the repository; None if the site does not have it."""
    if name in PAGES:
        return PAGES[name]
    inside = name.startswith("docs/") and (name.endswith(".md") or name.startswith("docs/images/"))
    return name.removeprefix("docs/") if inside else None


def on_page_markdown(markdown, page, config, files):
    name = os.path.relpath(page.file.abs_src_path, source)

    def link(match):
        image, text, target = match.groups()
        path, _, section = target.partition("#")
        if not path or re.match(r"\w+:", path):
            return match[0]
        path = site_path(posixpath.normpath(posixpath.join(posixpath.dirname(name), path)))
        if not path:
            return text if text.startswith("`") or " " in text else f"`{text}`"
        return f"{image}[{text}]({path}{'#' + section if section else ''})"

    def picture(match):
        """Two images, of which the site shows the one that fits its colors."""
        dark, light, text = match.groups()
        return f"![{text}]({dark}#only-dark)![{text}]({light}#only-light)"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    for i in range(0, len(parts), 2):
        part = re.sub(r"<!--.*?-->\n?", "", parts[i], flags=re.S)
        part = re.sub(r'<picture>.*?srcset="([^"]+)".*?src="([^"]+)" alt="([^"]+)".*?</picture>', picture, part)
        parts[i] = re.sub(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)", link, part)
    return "".join(parts)


def on_page_content(html, page, config, files):
    """A vertical bar in a table's code has a backslash, which GitHub leaves out."""
    return re.sub(r"<code>[^<]*</code>", lambda code: code[0].replace(r"\|", "|"), html)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""site_pages.py -- what make_site.sh does beside the generator: it collects the pages, and follows the links of the finished site.

Usage: site_pages.py collect FOLDER     the pages of the tree and the files that they link to into FOLDER/pages; FOLDER/mkdocs.yml
       site_pages.py check HTML         every link of every page leads to a file and a heading that are there
"""
import html.parser
import os
import pathlib
import re
import shutil
import sys
import urllib.parse

SOURCE = pathlib.Path(__file__).resolve().parent.parent
LEFT_OUT = {'build', 'output', 'data', '__pycache__'}  # at the top; and hidden folders
LINK = re.compile(r'(!?\[[^\]]*\]\()([^()\s#]+)((?:#[^()\s]*)?\))')
FENCE = re.compile(r'(^(?:```|~~~).*?^(?:```|~~~)[ \t]*$)', re.DOTALL | re.MULTILINE)
CONFIG = '''# Made by scripts/make_site.sh.
site_name: Tutti
docs_dir: pages
use_directory_urls: false
theme: {{ name: mkdocs, highlightjs: false }}
plugins: [search]
markdown_extensions:
  - toc: {{ slugify: !!python/name:site_pages.slug }}
  - tables
  - fenced_code
  - sane_lists
nav:
{nav}
'''


def slug(title, separator):
    """The name of a heading, as check_layout.py and forges make it."""
    return re.sub(r'[^\w\- ]', '', title.strip().lower()).replace(' ', separator)


def pages_of_tree():
    found = []
    for folder, folders, files in os.walk(SOURCE):
        here = pathlib.Path(folder).relative_to(SOURCE)
        folders[:] = [f for f in folders if not f.startswith('.') and f not in LEFT_OUT and not (here == pathlib.Path() and f.startswith('build'))]
        found += [here / f for f in files if f.endswith('.md')]
    return sorted(found)


def listing(folder):
    """A page for a folder that has none of its own and that a page links to."""
    files = sorted(f.name for f in (SOURCE / folder).iterdir() if f.is_file() and not f.name.startswith('.'))
    return f'# {folder}\n\n' + '\n'.join(f'- [{name}]({name})' for name in files) + '\n', [folder / name for name in files]


class Collection:
    def __init__(self, folder):
        self.folder, self.copied = folder, set()

    def put(self, path, text=None):
        target = self.folder / path
        if path in self.copied:
            return
        self.copied.add(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            shutil.copyfile(SOURCE / path, target)
        else:
            target.write_text(text, encoding='utf-8')

    def linked(self, page, match):
        """Takes along what a link leads to; a folder becomes its page."""
        start, link, rest = match.groups()
        if re.match(r'[a-z]+:', link):
            return match[0]
        path = pathlib.Path(os.path.normpath(page.parent / link))
        if (SOURCE / path).is_dir():
            readme = path / 'README.md'
            if not (SOURCE / readme).exists():
                text, files = listing(path)
                self.put(readme, text)
                for file in files:
                    self.put(file)
            return f'{start}{link.rstrip("/")}/README.md{rest}'
        if (SOURCE / path).is_file() and path.suffix != '.md':
            self.put(path)
        return match[0]

    def page(self, path):
        parts = FENCE.split((SOURCE / path).read_text(encoding='utf-8'))
        parts[::2] = [LINK.sub(lambda m: self.linked(path, m), part) for part in parts[::2]]
        # The generator wants an empty line before a list; forges do not.
        parts[::2] = [re.sub(r'^((?![-|\s]).+)\n(?=- )', r'\1\n\n', part, flags=re.MULTILINE) for part in parts[::2]]
        self.put(path, ''.join(parts))


def navigation():
    """The sections and links of docs/README.md; each page once."""
    lines, seen = ['  - Tutti: README.md', '  - All pages: docs/README.md'], {'README.md', 'docs/README.md'}
    for line in (SOURCE / 'docs/README.md').read_text(encoding='utf-8').splitlines():
        if re.match(r'[A-Z][\w ]+$', line):
            lines.append(f'  - {line}:')
        for link in re.findall(r'\]\(([^()#\s]+\.md)', line):
            path = os.path.normpath(f'docs/{link}')
            if path not in seen:
                seen.add(path)
                lines.append(f'      - {path}')
    return '\n'.join(lines)


def collect(folder):
    shutil.rmtree(folder / 'pages', ignore_errors=True)
    collection = Collection(folder / 'pages')
    for path in pages_of_tree():
        collection.page(path)
    (folder / 'mkdocs.yml').write_text(CONFIG.format(nav=navigation()), encoding='utf-8')


class Page(html.parser.HTMLParser):
    """The places of a page, and where it leads to."""

    def __init__(self, text):
        super().__init__()
        self.places, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places |= {attributes[key] for key in ('id', 'name') if attributes.get(key)}
        for key in ('href', 'src'):
            if attributes.get(key):
                self.links.append(attributes[key])
                if tag in ('script', 'img') or (tag == 'link' and attributes.get('rel') == 'stylesheet'):
                    self.loaded.append(attributes[key])


def check(root):
    pages = {file.resolve(): Page(file.read_text(encoding='utf-8')) for file in sorted(root.rglob('*.html'))}
    problems = []
    for file, page in pages.items():
        name = file.relative_to(root.resolve())
        problems += [f'{name} loads {link} from elsewhere' for link in page.loaded if re.match(r'([a-z]+:)?//', link)]
        if name.name == '404.html':  # its links are those of the place where it is shown
            continue
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
            target = target / 'index.html' if target.is_dir() else target
            place = urllib.parse.unquote(parts.fragment)
            if not target.exists():
                problems.append(f'{name}: there is no {link}')
            elif place and target in pages and place not in pages[target].places:
                problems.append(f'{name}: {target.name} has no heading #{place}')
    for problem in problems:
        print(problem)
    print(f'{len(pages)} pages, {sum(len(p.links) for p in pages.values())} links: ' + (f'{len(problems)} problems' if problems else 'in order'))
    return 1 if problems or not pages else 0


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ('collect', 'check'):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == 'check':
        sys.exit(check(folder))
    collect(folder)


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""scripts/make_site.sh: the pages become a site by the real generator, where it is installed; links that lead nowhere are found."""
import shutil
import subprocess
import sys
import unittest

import support

PAGES = support.SOURCE / 'scripts/site_pages.py'


class SiteTest(support.TrainerTest):
    @unittest.skipUnless(shutil.which('mkdocs'), 'no mkdocs: the Debian package mkdocs is not installed')
    def test_the_site(self):
        done = subprocess.run([support.SOURCE / 'scripts/make_site.sh', self.directory], capture_output=True, text=True, timeout=support.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(': in order', done.stdout)
        site = self.directory / 'html'
        for page in (support.SOURCE / 'docs').rglob('*.md'):
            name = page.relative_to(support.SOURCE).with_suffix('.html')
            self.assertTrue((site / (name.with_name('index.html') if page.name == 'README.md' else name)).exists(), name)
        text = (site / 'docs/methods/easgd.html').read_text(encoding='utf-8')
        self.assertIn('<title>EASGD - Tutti</title>', text)
        self.assertIn('<li><code>period</code>', text)

    def check(self, **pages):
        for name, text in pages.items():
            self.write(f'html/{name}.html', text)
        done = subprocess.run([sys.executable, PAGES, 'check', self.directory / 'html'], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def test_links(self):
        self.assertEqual(self.check(a='<h1 id="x"><a href="b.html#y">', b='<h2 id="y"><a href="a.html"><a href="#y"><a href="https://a.b/c">')[0], 0)
        for link, said in (('absent.html', 'a.html: there is no absent.html'), ('b.html#z', 'a.html: b.html has no heading #z'), ('#z', 'a.html has no heading #z')):
            with self.subTest(link=link):
                code, text = self.check(a=f'<a href="{link}">', b='<h2 id="y">')
                self.assertEqual(code, 1)
                self.assertIn(said, text)
        code, text = self.check(a='<script src="https://a.b/c.js"></script>')
        self.assertEqual((code, text.splitlines()[0]), (1, 'a.html loads https://a.b/c.js from elsewhere'))

    def test_no_generator(self):
        empty = self.directory / 'bin'
        empty.mkdir()
        for tool in ('bash', 'dirname', 'id', 'sed', 'env'):
            (empty / tool).symlink_to(shutil.which(tool))
        done = subprocess.run([support.SOURCE / 'scripts/make_site.sh', self.directory / 'site'], capture_output=True, text=True, env={'PATH': str(empty)}, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn('fix: apt install mkdocs', done.stderr)


if __name__ == '__main__':
    support.main()

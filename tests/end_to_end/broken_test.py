# SPDX-License-Identifier: Apache-2.0
"""Every mistake in broken/ ends the run with an error that names place and fix: at once, printed once, on one rank and on more.

A case is NAME.expected beside NAME.cntk. Lines of NAME.expected: 'expect: TEXT' must be printed (as often as needed);
'args: ...' replaces configFile=NAME.cntk; 'exit: CODE' replaces 2 ('any': any but 0); 'ranks: 1 3' replaces the runs on one and on two;
'copies: any' where ranks in the midst of a run may meet the same fault before the first one ends them.
"""
import concurrent.futures
import pathlib
import re
import shlex
import shutil
import support

CASES = pathlib.Path(__file__).resolve().parent / 'broken'
SOUND = ('base', 'composite', 'data', 'hdf5', 'images', 'pictures', 'speech', 'table')  # configs that cases include and change


def read_case(path):
    case = {'expect': [], 'args': [f'configFile={path.stem}.cntk'], 'exit': '2', 'ranks': '1 2', 'copies': '1'}
    for line in path.read_text(encoding='utf-8').splitlines():
        key, _, value = line.partition(':')
        value = value.strip()
        if key == 'expect':
            case['expect'].append(value)
        elif key == 'args':
            case['args'] = shlex.split(value)
        elif key in case:
            case[key] = value
        else:
            raise ValueError(f'{path.name}: unknown line: {line}')
    if not case['expect']:
        raise ValueError(f'{path.name}: expects nothing')
    return case


class BrokenTest(support.TrainerTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(CASES, self.directory / 'cases')

    def folder_of(self, name, ranks):
        """A directory in which the case runs, with links to what it reads: a copy of everything would take longer than the run."""
        folder = self.directory / f'{name}_{ranks}'
        folder.mkdir()
        for path in (self.directory / 'cases').iterdir():
            if path.name == 'data' or (path.suffix == '.cntk' and path.stem in (*SOUND, name)):
                (folder / path.name).symlink_to(path)
        return folder

    def problems_of(self, name, case, ranks):
        """What is wrong with a run of the case, as text; '' when all is as it should be."""
        directory = self.folder_of(name, ranks)
        run = support.Run(directory, case['args'], None if ranks == 1 else ranks)
        result = run.wait()
        wrong = []
        if result.code == 0 if case['exit'] == 'any' else result.code != int(case['exit']):
            wrong.append(f'exit code {result.code}, not {case["exit"]}')
        if result.code < 0 or 'Sanitizer' in result.text:
            wrong.append('died of a bug')
        for expected in case['expect']:
            if expected not in result.text:
                wrong.append(f'does not print: {expected}')
        # A rank of an mpiexec run that speaks out of turn shows as a second copy of the same words.
        for error in set(re.findall(r'^.*\berror: .*$', result.text, re.MULTILINE)):
            if case['copies'] == '1' and result.text.count(error + '\n') > 1:
                wrong.append(f'printed {result.text.count(error)} times: {error}')
        shutil.rmtree(directory, ignore_errors=True)  # mpiexec may still be removing its own files
        return f'{name} on {ranks} ranks: ' + '; '.join(wrong) + f'\n{result}' if wrong else ''

    def run_cases(self, ranks, at_once):
        cases = {p.stem: read_case(p) for p in sorted(CASES.glob('*.expected'))}
        self.assertGreaterEqual(len(cases), 40)
        for config in CASES.glob('*.cntk'):
            self.assertTrue(config.stem in cases or config.stem in SOUND, f'{config.name} has no .expected')
        wanted = [(n, c) for n, c in cases.items() if str(ranks) in c['ranks'].split()]
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            problems = [p for p in pool.map(lambda nc: self.problems_of(*nc, ranks), wanted) if p]
        self.assertFalse(problems, f'{len(problems)} of {len(wanted)} cases\n' + '\n'.join(problems))

    def test_one_rank(self):
        self.run_cases(1, at_once=4)

    def test_two_ranks(self):
        self.run_cases(2, at_once=4)

    def test_three_ranks(self):
        """Where ranks find mistakes as they read: those that are not rank 0 must not each print one."""
        self.run_cases(3, at_once=4)


if __name__ == '__main__':
    support.main()

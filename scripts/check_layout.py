#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_layout.py -- holds the tree to its map: includes go down and peers do not meet, foreign headers stay in their folder,
fixed-width integers have their header, every file names its licence, every contract in include/tutti compiles alone. With
--docs also the pages: docs/README.md leads to each, links lead somewhere, the files that they name exist, lines and pages
keep their limits.

Usage: check_layout.py [--compiler 'c++ ...'] [--docs] [ROOT]
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys

# What a folder of src/ may include beside itself, and what those may. The order is the order in which data pass.
BELOW = {
    'base': [],
    'config': ['base'],
    'comm': ['base'],
    'codec': ['base'],
    'backend': ['base'],
    'graph': ['backend', 'config'],
    'brainscript': ['config', 'graph'],
    'cntk': ['graph'],
    'reader': ['config'],
    'optim': ['config'],
    'collective': ['comm', 'codec'],
    'parallel': ['config', 'collective'],
    'train': ['parallel', 'graph', 'brainscript', 'cntk', 'reader', 'optim'],
    'interchange': ['train'],
    'actions': ['train', 'interchange'],
    'launch': ['comm'],
    'doctor': ['config', 'launch'],
    'sweep': ['config', 'launch'],
    'starter': ['base'],
    'report': ['base'],
    'planner': ['actions', 'launch'],
    'simulator': ['actions', 'launch'],
    '.': ['actions', 'doctor', 'launch', 'planner', 'report', 'simulator', 'starter', 'sweep'],  # main.cpp
}
# Whose contract a header of include/tutti is.
CONTRACT = {
    'error': 'base', 'log': 'base', 'shape': 'base', 'parameters': 'base', 'archive': 'base', 'work_queue': 'base', 'placement': 'base', 'config': 'config',
    'communicator': 'comm', 'shared_memory': 'comm', 'codec': 'codec', 'graph': 'graph', 'builder': 'brainscript', 'reader': 'reader',
    'optimizer': 'optim', 'network': 'graph', 'gradient_check': 'graph', 'backend': 'backend', 'device': 'backend', 'tensor_ops': 'backend', 'kernel_choices': 'backend', 'loss_ops': 'backend', 'class_loss': 'backend', 'image_ops': 'backend', 'graph_capture': 'backend', 'recurrent': 'backend', 'exchange_stats': 'collective', 'gradient_exchange': 'parallel', 'weight_exchange': 'parallel', 'parallel_method': 'parallel',
}
# A network eats what a reader delivers, and several ranks compute a layer of it; servers of weights update them, and ranks divide an optimizer's
# state; placements are those of a network's layers: the contracts that are shared between peers.
SHARED = {'graph': ['reader', 'comm', 'collective'], 'parallel': ['optim'], 'optim': ['comm']}
# Single headers: placements are those of a network's layers.
SHARED_HEADERS = {('parallel', 'tutti/network.h')}
QUARANTINE = [
    (re.compile(r'^mpi\.h$'), 'src/comm/', 'MPI'),
    (re.compile(r'^(oneapi/)?dnnl'), 'src/backend/cpu/', 'oneDNN'),
    (re.compile(r'^(cuda|cublas|cudnn|nccl)'), 'src/**/cuda/', 'CUDA'),
    (re.compile(r'^hdf5'), 'src/reader/hdf5/', 'HDF5'),
    (re.compile(r'^(onnx/|google/protobuf/)'), 'src/interchange/onnx/', 'ONNX'),
]
LICENCE = 'SPDX-License-Identifier: Apache-2.0'
LICENSED = {'.cpp', '.h', '.cu', '.cuh', '.py', '.sh', '.cntk', '.supp'}
LICENSED_NAMES = {'meson.build', 'meson_options.txt', '.clang-format', '.clang-tidy', 'run'}
# Inputs of tests: their line numbers are what the tests are about.
TEST_DATA = re.compile(r'^tests/(.*/)?(broken|cases|data)/')
# Pages of docs/, counted as wc counts them.
WIDEST_LINE, LONGEST_PAGE = 120, 2500
FENCED = re.compile(r'^(```|~~~).*?^\1', re.DOTALL | re.MULTILINE)
LINK = re.compile(r'\]\(([^()\s]+)\)')
# A file of the tree named in a page's text; upper case is a placeholder.
NAMED_FILE = re.compile(r'`((?:src|include|tests|scripts|benchmarks|samples|configs)/[a-z0-9_./]+\.[a-z]+)`')
FIXED_WIDTH = re.compile(r'\bstd::u?int(8|16|32|64)_t\b')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def files_of(root):
    """All files but those of builds and runs: what .gitignore names, and hidden folders."""
    names = []
    for folder, folders, files in os.walk(root):
        here = pathlib.Path(folder).relative_to(root)
        top = here == pathlib.Path()
        folders[:] = [f for f in folders if not (f.startswith('.') or f == '__pycache__' or (top and (f.startswith('build') or f in ('output', 'data'))))]
        names += [(here / f).as_posix() for f in files]
    return sorted(names)


def reachable(folder):
    found, todo = set(), [folder]
    while todo:
        f = todo.pop()
        if f not in found:
            found.add(f)
            todo += BELOW[f]
    return found


def folder_of(name):
    """The level a file of src/ or include/tutti belongs to, or None where no rule applies."""
    parts = name.split('/')
    if name.startswith('include/tutti/'):
        return CONTRACT.get(pathlib.PurePosixPath(name).stem, '?')
    if parts[0] == 'src':
        return parts[1] if len(parts) > 2 else '.'
    return None


def includes(root, name):
    text = (root / name).read_text(encoding='utf-8', errors='replace')
    for match in INCLUDE.finditer(text):
        yield text.count('\n', 0, match.start()) + 1, match.group(1) == '"', match.group(2)


def target_of(root, name, header):
    """The project file that an include means, or None for a foreign one."""
    for candidate in (pathlib.PurePosixPath(name).parent / header, pathlib.PurePosixPath('include') / header,
                      pathlib.PurePosixPath('src') / header, pathlib.PurePosixPath('tests') / header):
        if (root / candidate).is_file():
            return candidate.as_posix()
    return None


def at_home(name, home):
    """`home` is the beginning of a path; ** stands for any folders."""
    return re.match(re.escape(home).replace(r'\*\*/', '(.*/)?'), name) is not None


def check_includes(root, name):
    problems = []
    folder = folder_of(name)
    if folder is None:
        below = None
    elif folder not in BELOW:
        return [f'{name}: no level is known for this file; add it to BELOW or CONTRACT in scripts/check_layout.py']
    else:
        below = reachable(folder)
    for line, quoted, header in includes(root, name):
        place = f'{name}:{line}'
        for pattern, home, what in QUARANTINE:
            if below is not None and pattern.match(header) and not at_home(name, home):
                problems.append(f'{place}: <{header}>: {what} is included under {home} only')
        if header.startswith('..') and below is not None:
            problems.append(f'{place}: "{header}": write the path from src/')
        target = target_of(root, name, header)
        if quoted and target is None:
            problems.append(f'{place}: "{header}" is no file of the project; write <> around foreign headers')
        if target is None or below is None:
            continue
        level = folder_of(target)
        contract = target.startswith('include/tutti/')
        if level in below or (contract and (level in SHARED.get(folder, []) or (folder, header) in SHARED_HEADERS)) or level is None:
            continue
        problems.append(f'{place}: "{header}": {folder} must not know {level} (includes go down; peers do not meet)')
    return problems


def check_cstdint(root, name):
    """GCC 13 and newer have std::int64_t nowhere else; headers of the project may bring it."""
    headers = {(quoted, header) for _, quoted, header in includes(root, name)}
    text = (root / name).read_text(encoding='utf-8', errors='replace')
    if (False, 'cstdint') in headers or any(quoted for quoted, _ in headers) or not FIXED_WIDTH.search(text):
        return []
    return [f'{name}: std::int32_t and the like need <cstdint>']


def check_licence(root, name):
    path = pathlib.PurePosixPath(name)
    if TEST_DATA.match(name) or not (path.suffix in LICENSED or path.name in LICENSED_NAMES):
        return []
    with open(root / name, encoding='utf-8', errors='replace') as f:
        head = f.readline()
        if head.startswith('#!'):
            head = f.readline()
    return [] if LICENCE in head else [f'{name}:1: the first line (after #!) must hold "{LICENCE}"']


def anchors(text):
    """The places of a page that a link may name, as GitHub makes them of headings."""
    found = set()
    for title in re.findall(r'^#+ +(.*)$', FENCED.sub('', text), re.MULTILINE):
        plain = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', title)
        name = re.sub(r'[^\w\- ]', '', plain.strip().lower()).replace(' ', '-')
        found.add(name if name not in found else f'{name}-1')
    return found


def check_results(pages):
    """Every page of docs/results has a row in the table of its README.md."""
    table = 'docs/results/README.md'
    rows = set(re.findall(r'^\| *\[[^\]]*\]\(([^()\s]+)\) *\|', pages.get(table, ''), re.MULTILINE))
    return [f'{name}: add a row for this page to the table of {table}' for name in pages
            if name.startswith('docs/results/') and name != table and name[len('docs/results/'):] not in rows]


def check_docs(root, names):
    """docs/ and the pages beside it: README, CONTRIBUTING and the like."""
    pages = {n: (root / n).read_text(encoding='utf-8') for n in names
             if n.endswith('.md') and (n.startswith('docs/') or '/' not in n)}
    problems, leads_to = [], {}
    for name, text in pages.items():
        for number, line in enumerate(text.split('\n'), 1):
            if len(line) > WIDEST_LINE:
                problems.append(f'{name}:{number}: {len(line)} characters; a line has at most {WIDEST_LINE}')
        words = len(text.split())
        if words > LONGEST_PAGE:
            problems.append(f'{name}: {words} words; a page has at most {LONGEST_PAGE}')
        problems += [f'{name}: there is no file {file}' for file in NAMED_FILE.findall(text) if not (root / file).exists()]
        leads_to[name] = set()
        for link in LINK.findall(FENCED.sub('', text)):
            if re.match(r'[a-z]+:', link):
                continue
            path, _, place = link.partition('#')
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not (root / target).exists():
                problems.append(f'{name}: there is no {link}')
            elif place and target in pages and place not in anchors(pages[target]):
                problems.append(f'{name}: {target} has no heading #{place}')
            leads_to[name].add(target)
    reached, todo = set(), ['docs/README.md']
    while todo:
        page = todo.pop()
        if page in pages and page not in reached:
            reached.add(page)
            todo += [p for p in leads_to[page] if p.startswith('docs/')]
    problems += check_results(pages)
    problems += [f'{name}: no link from docs/README.md leads to this page'
                 for name in pages if name.startswith('docs/') and name not in reached]
    return problems


def check_alone(root, name, compiler):
    command = compiler + ['-std=c++20', '-fsyntax-only', '-Wall', '-Wextra', '-Wno-unused-parameter', '-Werror',
                          '-I', str(root / 'include'), '-include', str(root / name), '-x', 'c++', '/dev/null']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f'{name}: does not compile alone:\n{done.stderr.rstrip()}']


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--compiler', default='c++')
    parser.add_argument('--docs', action='store_true', help='check the pages of docs/ as well')
    parser.add_argument('root', nargs='?', default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    names = files_of(root)
    problems = []
    for name in names:
        problems += check_licence(root, name)
        if pathlib.PurePosixPath(name).suffix in {'.cpp', '.h', '.cu', '.cuh'}:
            problems += check_includes(root, name) + check_cstdint(root, name)
    contracts = [n for n in names if n.startswith('include/tutti/') and n.endswith('.h')]
    if not contracts:
        problems.append(f'{root}: no header in include/tutti; is this the root of the project?')
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda n: check_alone(root, n, shlex.split(arguments.compiler)), contracts):
            problems += found
    if arguments.docs:
        problems += check_docs(root, names)
    for problem in problems:
        print(problem)
    print(f'{len(names)} files, {len(contracts)} contracts: ' + (f'{len(problems)} problems' if problems else 'in order'))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())

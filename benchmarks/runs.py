# SPDX-License-Identifier: Apache-2.0
"""runs.py -- what the benchmark scripts share: starting programs and ranks, failing with all that was said, and picking figures out of logs."""
import datetime
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Failed(SystemExit):
    """A program that failed; where nobody catches it, the script ends with its words."""


def sizes(text):
    """'2048*3' or '512:256' as a list."""
    found = []
    for part in text.split(':'):
        value, _, count = part.partition('*')
        found += [int(value)] * int(count or 1)
    return found


def words(text):
    """'a,b' as a list, for argparse."""
    return text.split(',')


def numbers(text):
    """'1,2' as a list, for argparse."""
    return [int(n) for n in words(text)]


def rotated(items, by):
    items = list(items)
    return items[by % len(items):] + items[:by % len(items)]


def needed(build, *programs):
    """The paths of programs in a build directory; ends the script where one is missing."""
    paths = [build.resolve() / p for p in programs]
    for path in paths:
        if not path.exists():
            sys.exit(f'{path} is not there: ninja -C {build} first, or name another --build')
    return paths


def commit_and_date():
    """"commit 1234abcd, 2026-11-28", of this clone and of today; the date alone elsewhere."""
    try:
        done = subprocess.run(['git', '-C', ROOT, 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False)
        commit = f'commit {done.stdout.strip()}, ' if done.returncode == 0 else ''
    except OSError:
        commit = ''
    return f'{commit}{datetime.date.today()}'


def environment():
    """One thread per rank; Open MPI refuses to start as root unless told twice."""
    env = dict(os.environ, OMP_NUM_THREADS='1')
    if os.geteuid() == 0:
        env['OMPI_ALLOW_RUN_AS_ROOT'] = env['OMPI_ALLOW_RUN_AS_ROOT_CONFIRM'] = '1'
    return env


def call(command, timeout=None, **options):
    """All that a program says on both its outputs. After `timeout` seconds it is told to end, so that mpiexec ends its ranks."""
    command = [str(c) for c in command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), **options) as process:
        late = ''
        try:
            said, complained = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            late = f' (not done after {timeout:g} s)'
            process.terminate()
            try:
                said, complained = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                said, complained = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0 or late:
        raise Failed(f'{shlex.join(command)}\nended with exit code {process.returncode}{late}:\n{said}{complained}')
    return said + complained


def on_ranks(ranks, mpiexec='mpiexec'):
    """The words before a program: a core of its own for each rank where there are enough of them."""
    place = ['--map-by', 'core', '--bind-to', 'core'] if ranks <= len(os.sched_getaffinity(0)) else ['--oversubscribe', '--bind-to', 'none']
    return [*shlex.split(mpiexec), '-n', ranks, *place]


def figures(log, name):
    """The numbers behind `name =` in the minibatch lines of a trainer's log."""
    found = [float(t) for t in re.findall(rf'Minibatch\[.*?\b{name} = ([\d.e+-]+)', log)]
    if not found:
        raise Failed(f'the trainer printed no minibatch lines with {name}:\n{log}')
    return found

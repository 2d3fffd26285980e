# SPDX-License-Identifier: Apache-2.0
"""pip_venv.py -- a virtual environment with packages of PyPI for tests that compare with other programs. It lies beside the trainer, for the next
run of the tests; a test is skipped, and says so, where the packages cannot be installed."""
import fcntl
import pathlib
import subprocess
import sys
import unittest

import support


def python_with(*packages):
    """The path of a Python that has the packages (names, as `pip install` takes them)."""
    folder = pathlib.Path(support.TRAINER).resolve().parent / 'venv'
    python, complete = folder / 'bin' / 'python', folder / 'complete'
    with open(folder.with_suffix('.lock'), 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run beside each other
        if not complete.exists():
            run_or_skip([sys.executable, '-m', 'venv', '--clear', folder], 'a virtual environment')
            complete.touch()
        for package in packages:
            if not (folder / f'has-{package}').exists():
                install(python, package)
                (folder / f'has-{package}').touch()
    return str(python)


def install(python, *words):
    run_or_skip([python, '-m', 'pip', 'install', '-q', '--disable-pip-version-check', *words], words[-1])


def run_or_skip(command, what):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise unittest.SkipTest(f'{what} cannot be installed: {done.stderr.strip().splitlines()[-1:]}')

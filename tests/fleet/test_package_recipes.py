#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The recipes for Debian, conda-forge and Spack, as far as they can be checked without building:
test_package_recipes.py BUILD

rattler-build, which builds for conda-forge, reads and renders the one. Spack has no package for
Python's installer: its recipe is run here with directives that only write down what they are told.
"""

import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import types

import stage
from kit import run_cases

PACKAGING = stage.ROOT / 'deploy' / 'packaging'
CONDA, SPACK = PACKAGING / 'conda' / 'recipe.yaml', PACKAGING / 'spack' / 'package.py'
RENDER = '''
import json, sys
from rattler_build.stage0 import Stage0Recipe
from rattler_build.variant_config import VariantConfig
pins = VariantConfig.from_yaml('c_stdlib: [sysroot]\\nc_stdlib_version: ["2.28"]\\n')
made, = Stage0Recipe.from_yaml(sys.stdin.read()).render(pins)
print(json.dumps(made.recipe.to_dict()))
'''


def project(pattern, file='meson.build'):
    return set(re.findall(pattern, (stage.ROOT / file).read_text(encoding='utf-8'), re.MULTILINE))


def options_of(text):
    """The options of our own that a command gives to meson."""
    return set(re.findall(r'-D(\w+)=', text))


KNOWN = project(r"^option\('(\w+)'", 'meson_options.txt')
VERSION, = project(r"^  version: '(.+)',")


def render(text):
    python = stage.venv_python('rattler_build')
    return subprocess.run([python, '-c', RENDER], input=text, capture_output=True, text=True,
                          check=False)


def rattler_build_renders_the_conda_recipe():
    text = CONDA.read_text(encoding='utf-8')
    run = render(text)
    assert run.returncode == 0, run.stderr[-600:]
    recipe = json.loads(run.stdout)
    assert recipe['package']['version'] == VERSION
    options = options_of(' '.join(recipe['build']['script']))
    assert options and options <= KNOWN, options - KNOWN
    assert 'sysroot_linux-64 2.28.*' in recipe['requirements']['build'], recipe['requirements']
    assert render(text.replace('requirements:', 'requirement:')).returncode  # it does look


class Spec:
    """A package whose variants are all chosen, or none; dependencies lie in /deps."""

    def __init__(self, chosen):
        self.chosen = chosen

    def __contains__(self, _variant):
        return self.chosen

    def __getitem__(self, name):
        return types.SimpleNamespace(prefix=types.SimpleNamespace(include=f'/deps/{name}/include'))


def spack_package(told):
    """The recipe's class; each directive that it uses is written down."""
    class When:
        """The block of `with when(...)`."""
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    def directive(name):
        return lambda *words, **named: told.append((name, words, named))
    names = {name: directive(name)
             for name in ('license', 'version', 'variant', 'depends_on', 'conflicts')}
    spack = types.ModuleType('spack.package')
    spack.__dict__.update(names, when=lambda *_: When(), join_path=lambda *parts: '/'.join(parts))
    meson = types.ModuleType('spack_repo.builtin.build_systems.meson')
    meson.MesonPackage = type('MesonPackage', (), {})
    sys.modules.update({'spack': types.ModuleType('spack'), spack.__name__: spack,
                        meson.__name__: meson})
    for name in ('spack_repo', 'spack_repo.builtin', 'spack_repo.builtin.build_systems'):
        sys.modules[name] = types.ModuleType(name)
    scope = {}
    exec(compile(SPACK.read_text(encoding='utf-8'), SPACK, 'exec'), scope)  # pylint: disable=exec-used
    return scope['Cudamem']


def the_spack_recipe_fits_the_build():
    told = []
    package = spack_package(told)()
    assert ('version', (VERSION,)) in [(name, words) for name, words, _ in told]
    for chosen, word in ((True, 'enabled'), (False, 'disabled')):
        package.spec = Spec(chosen)
        text = ' '.join(package.meson_args())
        assert options_of(text) <= KNOWN and f'-Dtool={word}' in text, text
    needs = {words[0].partition('@')[0] for name, words, _ in told if name == 'depends_on'}
    assert {'c', 'meson', 'cuda', 'elfutils', 'sqlite', 'util-linux', 'zstd', 'ncurses'} <= needs
    minimum, = project(r"^  meson_version: '>=([\d.]+)'")
    assert f'meson@{minimum}:' in [words[0] for name, words, _ in told if name == 'depends_on']


def meson_knows(what):
    run = subprocess.run(['meson', 'introspect', sys.argv[1], f'--{what}'], capture_output=True,
                         text=True, check=True)
    return json.loads(run.stdout)


def debians_packages_have_all_that_is_installed():
    """The build of a Debian package fails for a file that belongs to none."""
    options = {option['name']: option['value'] for option in meson_knows('buildoptions')}
    prefix, libraries = pathlib.Path(options['prefix']), f"{options['libdir']}/"
    patterns = [line.split()[0] for file in (PACKAGING / 'debian').glob('*.install')
                for line in file.read_text(encoding='utf-8').splitlines()]
    files = [str(pathlib.PurePath(path).relative_to(prefix))
             for path in meson_knows('installed').values()]
    # Debian's folder of libraries, which a build elsewhere need not use.
    files = [f"usr/{'lib/machine/' if file.startswith(libraries) else ''}"
             f'{file.removeprefix(libraries)}' for file in files]
    assert 'usr/include/cudamem.h' in files, files
    left = [file for file in files
            if not any(fnmatch.fnmatch(file, pattern) or fnmatch.fnmatch(file, f'{pattern}/*')
                       for pattern in patterns)]
    assert not left, left


if __name__ == '__main__':
    sys.exit(run_cases([rattler_build_renders_the_conda_recipe, the_spack_recipe_fits_the_build,
                        debians_packages_have_all_that_is_installed]))

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The messages that the code can end with, read from its source.

A message is the text of a call that tells the user what to mend: of an
exception (:data:`EXCEPTIONS`), of a finding in a data set, of an argument
parser. Texts stay templates, as ``checkpoint '{path}' does not exist``.
"""
import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

#: Exceptions whose text is made for users.
EXCEPTIONS = ('UserError', 'EnvError', 'ArgumentTypeError', 'ImportError',
              'SystemExit')
#: Modules whose functions return such texts, for what others have raised.
EXPLAINING = ('qbheat_mm/cli/explain.py',
              'qbheat_mm/checkpoint_file.py')
#: Effects of a finding, the first argument of ``Report.add``.
EFFECTS = ('STOPS', 'DROPPED', 'MENDED', 'KEPT')
_UNSAID = '...'
_WORDS = dict(len='{number}', sum='{number}', getcwd='{working folder}',
              type='{class}')
_MANY = 12  # more ways to fill a template are not told
_DEPTH = 3  # of calls


@dataclass(frozen=True, order=True)
class Message:
    """One message.

    Attributes:
        file (str): Where it stands, relative to the root.
        line (int): Of the call.
        text (str): The template.
    """
    file: str
    line: int
    text: str


def collect(root: Path) -> list[Message]:
    """All messages of the package and its tools, each once a file."""
    found = {}
    for folder in ('qbheat_mm', 'tools'):
        for path in sorted((root / folder).rglob('*.py')):
            if '.mim' not in path.parts:
                name = path.relative_to(root).as_posix()
                for message in messages_of(path.read_text('utf-8'), name):
                    found.setdefault((name, message.text), message)
    return sorted(found.values())


def messages_of(source: str, file: str) -> Iterator[Message]:
    """The messages of one file."""
    module = _Module(ast.parse(source))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            for text in _told(node, module):
                yield Message(file, node.lineno, text)
        elif file in EXPLAINING and isinstance(node, ast.Return) and (
                isinstance(node.value, ast.JoinedStr)):
            for text in module.texts(node.value):
                if ' ' in re.sub(r'{[^}]*}', '', text).strip(' :()=1'):
                    yield Message(file, node.lineno, _one_line(text))


def raises(source: str) -> list[int]:
    """Lines of a source on which an exception for users is made."""
    return [node.lineno for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and _name(node.func) == 'UserError']


def _told(call: ast.Call, module: '_Module') -> Iterator[str]:
    """What a call tells the user, if it does."""
    name, args = _name(call.func), call.args
    owner = _name(getattr(call.func, 'value', None))
    if args and (name in EXCEPTIONS or (owner, name) == ('parser', 'error')):
        texts = module.texts(args[0])
    elif name == 'add' and args and any(
            _name(part) in EFFECTS for part in ast.walk(args[0])):
        texts = _finding(call, module)
    else:
        return
    for text in texts:
        if re.sub(r'{[^}]*}', '', text).strip():  # not only another's text
            yield _one_line(text)


def _finding(call: ast.Call, module: '_Module') -> Iterator[str]:
    """A fault of a data set, with the way out where there is one."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    named |= dict(zip(('effect', 'what', 'count', 'total', 'example',
                       'way_out'), call.args))
    way_out = named.get('way_out', ast.Constant(''))
    parts = ast.JoinedStr([ast.FormattedValue(named['what'], -1),
                           ast.Constant('\0'),
                           ast.FormattedValue(way_out, -1)])
    for text in module.texts(parts, call):
        what, _, how = text.partition('\0')
        if _name(named['effect']) == 'DROPPED':
            what += '; left out'
        yield f'{what}: {how}' if re.sub('{.*}', '', how) else what


class _Place(NamedTuple):
    """Where an expression stands: in which function, called with what."""
    scope: ast.FunctionDef | None
    given: dict = {}
    seen: frozenset = frozenset()


class _Module:
    """A parsed file, and what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents = {child: node for node in ast.walk(tree)
                        for child in ast.iter_child_nodes(node)}

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        return {node.name: node for node in ast.walk(self.tree)
                if isinstance(node, ast.FunctionDef)}

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        return {node.targets[0].id: node.value for node in self.tree.body
                if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)}

    def texts(self, node: ast.expr, place: ast.AST | None = None
              ) -> list[str]:
        """What an expression may say: one template or a few."""
        if isinstance(node, ast.IfExp):
            return self.texts(node.body) + self.texts(node.orelse)
        scope = self._function(place or node)
        said = [text for given in self._given(scope)
                for text in self._say(node, _Place(scope, given))]
        return list(dict.fromkeys(said)) or [_placeholder(node)]

    def _given(self, scope: ast.FunctionDef | None, depth: int = 0
               ) -> list[dict]:
        """What the calls of a function in this file give as arguments.

        Returns:
            list[dict]: For each call its arguments by name, with the place
            of the call; one empty dict where nothing calls it.
        """
        calls = [call for call in ast.walk(self.tree) if scope and isinstance(
            call, ast.Call) and _name(call.func) == scope.name]
        found = []
        for call in calls if depth < _DEPTH else ():
            values = dict(zip(_parameters(scope), call.args))
            values |= {key.arg: key.value for key in call.keywords}
            caller = self._function(call)
            for given in self._given(caller, depth + 1):
                found.append({name: (value, _Place(caller, given))
                              for name, value in values.items()})
        return found or [{}]

    def _say(self, node: ast.expr, place: '_Place') -> list[str]:
        """Templates of an expression; none if it is no text of ours."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.JoinedStr):
            return _product(self._part(each, place) for each in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return _product(self._say(side, place) or [_UNSAID]
                            for side in (node.left, node.right))
        if isinstance(node, ast.Name):
            return self._named(node.id, place)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._returned(node.func.id, place)
        return []

    def _part(self, node: ast.expr, place: '_Place') -> list[str]:
        """A part of an f-string."""
        if isinstance(node, ast.Constant):
            return [node.value]
        # What is quoted is a value that somebody gave, not a text of ours.
        value = node.conversion == ord('r') or isinstance(
            node.value, ast.Call)
        said = [] if value else self._say(node.value, place)
        return said or [_placeholder(node.value)]

    def _named(self, name: str, place: '_Place') -> list[str]:
        """What a name stands for: an argument, a variable, a constant."""
        if name in place.seen:
            return []
        seen = place.seen | {name}
        if name in place.given:
            value, there = place.given[name]
            return self._say(value, there)
        values = [] if place.scope is None else list(
            _assigned(name, place.scope))
        place = place._replace(seen=seen)
        if not values and name in self.constants:
            values, place = [self.constants[name]], _Place(None, {}, seen)
        said = [self._say(value, place) for value in values]
        if not all(said):  # at times something else
            return []
        texts = list(dict.fromkeys(text for each in said for text in each))
        return texts if len(texts) <= _MANY else []

    def _returned(self, name: str, place: '_Place') -> list[str]:
        """What a function of this file returns."""
        function = self.functions.get(name)
        if function is None or name in place.seen:
            return []
        inside = _Place(function, {}, place.seen | {name})
        return [text for node in ast.walk(function)
                if isinstance(node, ast.Return) and node.value is not None
                for text in self._say(node.value, inside)]

    def _function(self, node: ast.AST) -> ast.FunctionDef | None:
        while node is not None and not isinstance(node, ast.FunctionDef):
            node = self.parents.get(node)
        return node


def _assigned(name: str, scope: ast.FunctionDef) -> Iterator[ast.expr]:
    """Values that a function gives a variable, in a loop over a dict too."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and name in map(_name, node.targets):
            yield node.value
        elif isinstance(node, ast.For) and isinstance(
                node.target, ast.Tuple) and name == _name(
                    node.target.elts[-1]):
            items = getattr(node.iter, 'func', None)  # of DICT.items()
            table = _name(getattr(items, 'value', None))
            for each in ast.walk(scope):
                if isinstance(each, ast.Assign) and isinstance(
                        each.value, ast.Dict) and table in map(
                            _name, each.targets):
                    yield from each.value.values


def _parameters(scope: ast.FunctionDef) -> list[str]:
    names = [arg.arg for arg in scope.args.args + scope.args.kwonlyargs]
    return names[1:] if names[:1] == ['self'] else names


def _product(parts: Iterable[list[str]]) -> list[str]:
    """All ways to join one text of each part, or none if they are many."""
    parts = [part if len(part) <= _MANY else part[:1] for part in parts]
    return [''.join(way) for way in itertools.product(*parts)]


def _name(node: ast.AST | None) -> str:
    """The last name of a function or variable."""
    return getattr(node, 'id', getattr(node, 'attr', ''))


def _placeholder(node: ast.expr) -> str:
    """A word in braces for what is known when the program runs."""
    if isinstance(node, ast.IfExp | ast.BinOp | ast.BoolOp):
        return _UNSAID
    if isinstance(node, ast.Subscript):
        return _placeholder(node.value)
    if isinstance(node, ast.Attribute) and node.attr == '__name__':
        return '{class}'
    if isinstance(node, ast.Call):
        name = _name(node.func)
        if name in _WORDS:
            return _WORDS[name]
        return _placeholder(node.args[-1 if name == 'map' else 0]
                            if node.args else node.func)
    word = _name(node).strip('_').replace('_', ' ')
    return f'{{{word}}}' if word else _UNSAID


def _one_line(text: str) -> str:
    text = ' '.join(text.split()).replace('{class}: {error}', '{error}')
    return re.sub(r'\.{4,}', _UNSAID, text)

# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which names a class or function reads, found in its source."""
import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator

# Packages whose classes know nothing of settings.
_NOT_READERS = ('abc', 'builtins', 'torch', 'typing')
_CATCH_ALL = inspect.Parameter.VAR_KEYWORD


@functools.cache
def accepted(target: Callable) -> frozenset[str] | None:
    """Names of the keyword arguments that a class or function takes.

    ``**kwargs`` that a constructor hands to its parent's are the parent's
    arguments. Where they go elsewhere, nobody can say from outside what is
    taken.

    Args:
        target (Callable): A class or a function.

    Returns:
        frozenset[str] | None: None where any name may be taken.
    """
    if not inspect.isclass(target):
        return _of_function(target)
    names: set[str] = set()
    for cls in target.__mro__:
        init = vars(cls).get('__init__')
        if init is None:
            continue
        if cls is object:
            return frozenset(names)
        try:
            parameters = inspect.signature(init).parameters.values()
        except (TypeError, ValueError):
            return None
        names |= _keywords(parameters) | _renamed(init)
        catch_all = [p.name for p in parameters if p.kind == _CATCH_ALL]
        if not catch_all:
            return frozenset(names - {'self'})
        taken = _taken_on_the_way(init, catch_all[0], cls, target)
        if taken is None:
            return None
        names |= taken
    return None


def _of_function(target: Callable) -> frozenset[str] | None:
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind == _CATCH_ALL for parameter in parameters):
        return None
    return frozenset(_keywords(parameters))


def _keywords(parameters: Iterable[inspect.Parameter]) -> set[str]:
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD,
               inspect.Parameter.KEYWORD_ONLY)
    return {p.name for p in parameters if p.kind in by_name}


def _renamed(function: Callable) -> set[str]:
    """Former names of arguments, by ``mmengine.deprecated_api_warning``."""
    try:
        outer = inspect.getclosurevars(function).nonlocals
    except TypeError:
        return set()
    return set(outer.get('name_dict') or ())


def _taken_on_the_way(init: Callable, kwargs: str, owner: type,
                      target: type) -> set[str] | None:
    """Names that a constructor takes out of its ``**kwargs``.

    Args:
        init (Callable): The constructor.
        kwargs (str): What it calls them.
        owner (type): The class that it is of.
        target (type): The class that is built.

    Returns:
        set[str] | None: None unless the rest goes to the next constructor
        and nowhere else.
    """
    tree = _tree(init)
    if tree is None:
        return None
    uses = {id(node) for node in ast.walk(tree)
            if isinstance(node, ast.Name) and node.id == kwargs}
    known, forwarded = set(), False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_next_init(
                node.func, owner, target):
            known |= {id(keyword.value) for keyword in node.keywords
                      if keyword.arg is None}
            forwarded |= any(id(keyword.value) in uses
                             for keyword in node.keywords)
        elif _is_merge_into(node, kwargs):
            known |= {id(node.targets[0]), *map(id, node.value.values)}
        known |= set(map(id, _places_read_by_name(node)))
    if not forwarded or uses - known:
        return None
    return {node.value for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _is_next_init(function: ast.expr, owner: type, target: type) -> bool:
    """``super().__init__``, or how else the next constructor is named.

    ``super(Other, self).__init__`` leaves some constructors out.
    """
    if not (isinstance(function, ast.Attribute)
            and function.attr == '__init__'):
        return False
    called = function.value
    if isinstance(called, ast.Name):  # Parent.__init__(self, ...)
        later = target.__mro__[target.__mro__.index(owner) + 1:]
        following = next(cls for cls in later if '__init__' in vars(cls))
        return called.id == following.__name__
    return isinstance(called, ast.Call) and (
        not called.args or isinstance(called.args[0], ast.Name)
        and called.args[0].id in (owner.__name__, '__class__'))


def _is_merge_into(node: ast.AST, kwargs: str) -> bool:
    """``kwargs = {'extensions': ..., **kwargs}``."""
    return (isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == kwargs)


def _places_read_by_name(node: ast.AST) -> Iterator[ast.expr]:
    """``kwargs`` in ``kwargs.pop('a')``, ``kwargs['a']``, ``'a' in kwargs``.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ('pop', 'get', 'setdefault', 'update'):
            yield node.func.value
    elif isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant):
            yield node.value
    elif isinstance(node, ast.Compare):
        yield from node.comparators


@functools.cache
def _tree(target: Callable) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(target)))
    except (OSError, TypeError, SyntaxError):
        return None


@functools.cache
def texts(function: Callable) -> frozenset[str]:
    """Texts in the code of a function: the names that it looks up."""
    tree = _tree(function)
    return frozenset(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)
        and isinstance(node.value, str)) if tree else frozenset()


@functools.cache
def words(cls: type) -> frozenset[str]:
    """Words in the code of the modules of a class and of its parents.

    What a class reads from a dict that it is given, it names there: as text,
    as an attribute, as a keyword.

    Args:
        cls (type): The class; parents of Python and torch are left out.
    """
    modules = {inspect.getmodule(parent) for parent in inspect.getmro(cls)
               if parent.__module__.split('.')[0] not in _NOT_READERS}
    found: set[str] = set()
    for module in modules - {None}:
        found |= _module_words(module)
    return frozenset(found)


@functools.cache
def _module_words(module) -> frozenset[str]:
    tree = _tree(module)
    found: set[str] = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call):
            found |= _unpacked_into(node, module)
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.keyword | ast.arg) and node.arg:
            found.add(node.arg)
        elif (isinstance(node, ast.Constant) and isinstance(node.value, str)
              and node.value.isidentifier()):
            found.add(node.value)
    return frozenset(found)


def _unpacked_into(call: ast.Call, module) -> set[str]:
    """What ``function(**settings)`` takes, for a function of the module."""
    if not isinstance(call.func, ast.Name) or all(
            keyword.arg for keyword in call.keywords):
        return set()
    target = getattr(module, call.func.id, None)
    return set(accepted(target) or ()) if callable(target) else set()

"""Runs the checkout's code where it branches on unknown values.

Collectors check what a framework chose and raise where it is not what their rows
would say. A branch whose condition was unknown takes the way that does not raise
or return early; every other branch is taken as written.
"""

import ast
import importlib.machinery
import os
import sys

from .unknown import MARK, Count, Unknown, is_unknown

RAISES, LEAVES, GOES_ON = 2, 1, 0


def _score(block):
    for statement in block:
        if isinstance(statement, ast.Raise):
            return RAISES
        if isinstance(statement, (ast.Return, ast.Continue, ast.Break)):
            return LEAVES
    return GOES_ON


def _ends_in_raise(blocks):
    """Whether what follows, from the inside out, comes to a raise."""
    for block in blocks:
        for statement in block:
            if isinstance(statement, ast.Raise):
                return True
            if any(isinstance(s, (ast.Return, ast.Continue, ast.Break)) for s in ast.walk(statement)):
                return False
    return False


def _ways_out(body):
    """The ifs of a loop that leave it."""
    for statement in body:
        if isinstance(statement, ast.If):
            if any(isinstance(s, (ast.Break, ast.Return)) for s in statement.body):
                yield statement
            else:
                yield from _ways_out(statement.body + statement.orelse)
        elif isinstance(statement, (ast.Try, ast.With)):
            yield from _ways_out(statement.body)


def _call(name, *args):
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _mark():
    return _call("_aicplan_mark")


# Builtins that would make a number or a list of an unknown.
KEEPS = {"int", "float", "len", "str", "bool", "tuple", "list", "set", "frozenset", "sorted", "min", "max", "sum", "abs", "round", "dict", "Fraction"}


class Steer(ast.NodeTransformer):
    def __init__(self):
        self._after = []  # what follows the statements that enclose the one at hand
        self._loops = 0

    def _block(self, body):
        out = []
        for i, statement in enumerate(body):
            self._after.append(body[i + 1 :])
            if isinstance(statement, ast.If):
                scores = []
                for branch in (statement.body, statement.orelse):
                    score = _score(branch)
                    scores.append(RAISES if score == GOES_ON and _ends_in_raise(reversed(self._after)) else score)
                statement._scores = scores
            got = self.visit(statement)
            self._after.pop()
            out.extend(got if isinstance(got, list) else [got])
        return out

    def generic_visit(self, node):
        for field in ("body", "orelse", "finalbody"):
            value = getattr(node, field, None)
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self._block(value))
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
            elif isinstance(value, list) and not (value and isinstance(value[0], ast.stmt)):
                value[:] = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
        return node

    def visit_If(self, node):
        yes, no = getattr(node, "_scores", (_score(node.body), _score(node.orelse)))
        self.generic_visit(node)
        node.test = _call("_aicplan_steer", _mark(), node.test, ast.Constant(yes), ast.Constant(no))
        return node

    def visit_IfExp(self, node):
        self.generic_visit(node)
        if all(isinstance(arm, ast.Constant) and isinstance(arm.value, str) for arm in (node.body, node.orelse)):
            return _call("_aicplan_either", _mark(), node.test, node.body, node.orelse)
        return node

    def visit_While(self, node):
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            # What would end it may be unknown: after many rounds it is as if.
            self._loops += 1
            rounds = "_aicplan_rounds_%d" % self._loops
            for test in _ways_out(node.body):
                test.test = _call("_aicplan_tired", ast.Name(id=rounds, ctx=ast.Load()), test.test)
            return [ast.Assign(targets=[ast.Name(id=rounds, ctx=ast.Store())], value=_call("_aicplan_rounds")), node]
        node.test = _call("_aicplan_loop", _mark(), node.test)
        return node

    def visit_Assert(self, node):
        self.generic_visit(node)
        node.test = _call("_aicplan_steer", _mark(), node.test, ast.Constant(GOES_ON), ast.Constant(RAISES))
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.args and not any(isinstance(a, ast.Starred) for a in node.args):
            if node.func.id in KEEPS:
                return ast.Call(func=ast.Name(id="_aicplan_keep", ctx=ast.Load()), args=[node.func] + node.args, keywords=node.keywords)
            if node.func.id in ("isinstance", "getattr", "issubclass") and not node.keywords:
                return _call("_aicplan_" + node.func.id, *node.args)
            if node.func.id == "type" and len(node.args) == 1:
                return _call("_aicplan_type", *node.args)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and len(node.args) == 1 and not node.keywords:
            return _call("_aicplan_join", node.func.value, *node.args)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "__new__":
            return _call("_aicplan_new", node.func.value, *node.args)
        return node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if node.attr == "__class__" and isinstance(node.ctx, ast.Load):
            return _call("_aicplan_type", node.value)
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return _call("_aicplan_in", node.left, node.comparators[0], ast.Constant(isinstance(node.ops[0], ast.NotIn)))
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return _call("_aicplan_is", node.left, node.comparators[0], ast.Constant(isinstance(node.ops[0], ast.IsNot)))
        return node

    def visit_Subscript(self, node):
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            return _call("_aicplan_item", node.value, node.slice)
        return node

    def visit_AnnAssign(self, node):
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arguments(self, node):
        node.defaults = [self.visit(d) for d in node.defaults]
        node.kw_defaults = [self.visit(d) if d is not None else None for d in node.kw_defaults]
        return node

    def visit_FunctionDef(self, node):
        after, self._after = self._after, []
        node.body = self._block(node.body)
        self._after = after
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit_arguments(node.args)
        node.returns = None
        for arg in node.args.posonlyargs + node.args.args + node.args.kwonlyargs:
            arg.annotation = None
        return node

    def _shape(self, target):
        """What a target takes apart: None, or a tuple of such."""
        if not isinstance(target, (ast.Tuple, ast.List)) or any(isinstance(e, ast.Starred) for e in target.elts):
            return None
        return tuple(self._shape(e) for e in target.elts)

    def visit_Assign(self, node):
        self.generic_visit(node)
        target = node.targets[0]
        shape = self._shape(target)
        if shape:
            node.value = _call("_aicplan_unpack", node.value, ast.Constant(shape))
        elif len(node.targets) == 1 and isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Slice, ast.Tuple)):
            return ast.Expr(_call("_aicplan_set", target.value, target.slice, node.value))
        return node

    def visit_For(self, node):
        self.generic_visit(node)
        shape = self._shape(node.target)
        if shape:
            node.iter = _call("_aicplan_unpack_each", node.iter, ast.Constant(shape))
        return node

    def visit_comprehension(self, node):
        self.generic_visit(node)
        shape = self._shape(node.target)
        if shape:
            node.iter = _call("_aicplan_unpack_each", node.iter, ast.Constant(shape))
        return node


def mark():
    return Count.asked


def steer(before, value, yes, no):
    if not is_unknown(value) and Count.asked == before:
        return value
    if yes != no:
        return yes < no
    return bool(value)


def loop(before, value):
    return value if not is_unknown(value) and Count.asked == before else False


def either(before, value, yes, no):
    """One of two words, by what a framework answered."""
    if is_unknown(value) or Count.asked != before:
        return Unknown("%s or %s" % (yes, no))
    return yes if value else no


class Rounds:
    """How often an endless loop has asked whether it ends."""

    most = 100

    def __init__(self):
        self.count = 0


def tired(rounds, value):
    rounds.count += 1
    return rounds.count > Rounds.most or value


def keep(builtin, *args, **kwargs):
    if builtin in (min, max) and len(args) > 1:
        known = [a for a in args if not is_unknown(a)]
        if builtin is max and len(args) == 2 and known in ([0], [1]):
            return next(a for a in args if is_unknown(a))  # a floor, and what it is about
        return builtin(*known, **kwargs) if len(known) > 1 else (known or args)[0]
    if is_unknown(args[0]):
        return str(args[0]) if builtin is str else args[0]
    if isinstance(args[0], str) and MARK in args[0] and builtin.__name__ in ("int", "float", "Fraction"):
        return Unknown("%s of %s" % (builtin.__name__, args[0].replace(MARK, "")))
    return builtin(*args, **kwargs)


def isinstance_(value, kind):
    kinds = kind if isinstance(kind, tuple) else (kind,)
    known = tuple(k for k in kinds if not is_unknown(k))
    if is_unknown(value):
        return Unknown("isinstance(%s)" % value._path)
    return isinstance(value, known)


def in_(item, container, negated):
    if is_unknown(container) or is_unknown(item):
        return Unknown("... in ...")
    return (item in container) != negated


def is_(value, other, negated):
    """What a framework has not got may be None; where nothing speaks for it, it is not."""
    if is_unknown(value) and other is None:
        return Unknown("%s is None" % value._path, truth=negated)
    return (value is other) != negated


def item(value, key):
    if is_unknown(key) and not is_unknown(value):
        try:
            return value[key]
        except (KeyError, IndexError, TypeError):
            return Unknown("...[%s]" % key._path)
    return value[key]


def unpack(value, shape):
    if is_unknown(value):
        return [unpack(Unknown("%s[%d]" % (value._path, i)), s) if s else Unknown("%s[%d]" % (value._path, i)) for i, s in enumerate(shape)]
    if any(shape) and isinstance(value, (tuple, list)) and len(value) == len(shape):
        return [unpack(v, s) if s else v for v, s in zip(value, shape)]
    return value


def unpack_each(values, shape):
    return (unpack(v, shape) for v in values)


def getattr_(value, name, *default):
    return Unknown("attribute " + name._path) if is_unknown(name) else getattr(value, name, *default)


def issubclass_(value, kind):
    if is_unknown(value) or is_unknown(kind):
        return Unknown("issubclass")
    return issubclass(value, tuple(k for k in (kind if isinstance(kind, tuple) else (kind,)) if not is_unknown(k)))


def type_(value):
    return Unknown("type(%s)" % value._path) if is_unknown(value) else value.__class__


def join(separator, parts):
    if not isinstance(separator, str):
        return separator.join(parts)
    if is_unknown(parts):
        return parts
    parts = list(parts)
    if any(is_unknown(p) for p in parts):
        return Unknown(separator.join(p._path if is_unknown(p) else p for p in parts))
    return separator.join(parts)


def new(kind, *args):
    return Unknown(kind._path + "()") if is_unknown(kind) or args and is_unknown(args[0]) else kind.__new__(*args)


def set_(container, key, value):
    try:
        container[key] = value
    except (IndexError, TypeError):
        # A list whose length was unknown.
        if not isinstance(container, list) or not isinstance(key, int):
            raise


NAMES = {
    "_aicplan_mark": mark, "_aicplan_steer": steer, "_aicplan_loop": loop, "_aicplan_rounds": Rounds, "_aicplan_tired": tired,
    "_aicplan_keep": keep, "_aicplan_isinstance": isinstance_, "_aicplan_getattr": getattr_, "_aicplan_issubclass": issubclass_,
    "_aicplan_type": type_, "_aicplan_join": join, "_aicplan_new": new, "_aicplan_either": either, "_aicplan_set": set_,
    "_aicplan_is": is_, "_aicplan_in": in_, "_aicplan_item": item, "_aicplan_unpack": unpack, "_aicplan_unpack_each": unpack_each,
}


def steered(source, path):
    tree = ast.parse(source, path)
    tree = ast.fix_missing_locations(Steer().visit(tree))
    return compile(tree, path, "exec", dont_inherit=True)


def install(root):
    import builtins

    for name, function in NAMES.items():
        setattr(builtins, name, function)
    root = os.path.realpath(root)
    loader = importlib.machinery.SourceFileLoader
    plain = loader.get_code

    def get_code(self, fullname):
        path = os.path.realpath(self.get_filename(fullname))
        if not path.startswith(root + os.sep):
            return plain(self, fullname)
        return steered(self.get_data(path), path)

    loader.get_code = get_code
    # A script that Python is started with is not imported.
    script = next((a for a in sys.orig_argv[1:] if not a.startswith("-")), "") if hasattr(sys, "orig_argv") else ""
    if script.endswith(".py") and os.path.realpath(script).startswith(root + os.sep):

        at = sys.orig_argv.index(script)
        sys.argv = sys.orig_argv[at:]
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
        try:
            with open(script, "rb") as f:
                code = steered(f.read(), os.path.realpath(script))
            module = type(sys)("__main__")
            module.__file__ = script
            sys.modules["__main__"] = module
            exec(code, module.__dict__)
        except SystemExit as stop:
            os._exit(_flushed(stop.code))
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(_flushed(1))
        os._exit(_flushed(0))


def _flushed(code):
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 0 if code is None else 1

"""Random compile-time programs, evaluated by CPython and by the elaborator: equal, or both raise.

    python_agreement.py EVALUATE [--count N] [--seed S] [--keep FOLDER]

EVALUATE is the tool of evaluate.cc. A program defines `f()`, with helpers, loops, comprehensions and
methods of what the language has. Integers are 64-bit in the language: a program in which CPython
meets a larger one may raise there; such programs are counted apart, and are few. Prints one line,
and the first programs that disagree; exit code 1 when there is one.
"""
import argparse
import ast
import pathlib
import random
import subprocess
import sys
import warnings

SEPARATOR = "\x1e\n"
MOST_BIG = 0.05  # of the programs, those with an integer beyond 64 bits
LARGEST = 2**63
MOST_SHOWN = 500  # characters of a message that come back


class Generator:
    """One program. Expressions are made by type; `depth` bounds them."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = {}  # name -> type, of the scope that is being written
        self.helpers = []  # (name, argument types, result type)
        self.fresh = 0

    def name(self):
        self.fresh += 1
        return f"v{self.fresh}"

    def pick(self, *choices):
        return self.r.choice(choices)

    def known(self, kind):
        return [n for n, k in self.names.items() if k == kind]

    def integer(self):
        if self.r.random() < 0.002:
            return self.pick("9223372036854775807", "(-2**63)", "3037000500", "(1 << 62)")
        return str(self.pick(0, 1, 2, 3, 5, 7, 16, 64, 128, self.r.randint(-40, 40)))

    def divisor(self, depth):
        """Rarely zero."""
        return self.pick("3", "-7", "16", "0.5", f"({self.expr('int', depth)} or 1)",
                         f"({self.expr('int', depth)} or 1)",
                         self.expr("int", depth) if self.r.random() < 0.2 else "2")

    def expr(self, kind, depth):
        known = self.known(kind)
        if known and self.r.random() < 0.35:
            return self.r.choice(known)
        if self.r.random() < 0.002:  # a type that does not belong there
            return f"({self.leaf(self.pick('int', 'str', 'list', 'dict', 'float'))})"
        if depth <= 0:
            return self.leaf(kind)
        if self.r.random() < 0.08:
            return (f"({self.expr(kind, depth - 1)} if {self.expr('bool', depth - 1)} "
                    f"else {self.expr(kind, depth - 1)})")
        calls = [h for h in self.helpers if h[2] == kind]
        if calls and self.r.random() < 0.2:
            name, arguments, _ = self.r.choice(calls)
            return f"{name}({', '.join(self.expr(a, depth - 1) for a in arguments)})"
        return getattr(self, "of_" + kind)(depth - 1)

    def leaf(self, kind):
        if kind == "int":
            return self.integer()
        if kind == "float":
            return self.pick("0.5", "2.0", "-1.25", "3.5", "1e3", "0.1")
        if kind == "bool":
            return self.pick("True", "False")
        if kind == "str":
            return self.pick("'a'", "'kiln'", "''", "'x,y'", "'A b'", "'_1'")
        if kind == "list":
            return "[" + ", ".join(self.integer() for _ in range(self.r.randint(0, 4))) + "]"
        if kind == "tuple":
            return "(" + "".join(self.integer() + ", " for _ in range(self.r.randint(1, 3))) + ")"
        keys = self.r.sample(["a", "b", "c", "d"], self.r.randint(0, 3))
        return "{" + ", ".join(f"'{k}': {self.integer()}" for k in keys) + "}"

    def of_int(self, d):
        e = self.expr
        choice = self.r.randint(0, 21)
        if choice <= 4:
            return f"({e('int', d)} {self.pick('+', '-', '*')} {e('int', d)})"
        if choice == 5:
            return f"({e('int', d)} {self.pick('//', '%')} {self.divisor(d)})".replace("0.5", "5")
        if choice == 6:
            return f"({e('int', d)} {self.pick('&', '|', '^')} {e('int', d)})"
        if choice == 7:
            return f"({e('int', d)} {self.pick('<<', '>>')} {self.pick('0', '1', '3', '5')})"
        if choice == 8:
            return f"{self.pick('-', '~', '+')}{e('int', d)}"
        if choice == 9:
            return f"({e('int', d)} ** {self.pick('0', '1', '2', '3')})"
        if choice == 10:
            return f"len({e(self.pick('str', 'list', 'tuple', 'dict'), d)})"
        if choice == 11:
            return (f"{self.pick('min', 'max')}([*{e(self.pick('list', 'tuple'), d)}, 4])"
                    if self.r.random() < 0.5 else f"sum({e(self.pick('list', 'tuple'), d)})")
        if choice == 12:
            return f"{self.pick('min', 'max')}({e('int', d)}, {e('int', d)}, {e('int', d)})"
        if choice == 13:
            if self.r.random() < 0.1:
                return f"{e(self.pick('list', 'tuple'), d)}[{self.pick('0', '-1', e('int', 0))}]"
            return f"[{e('int', d)}, *{e('list', d)}][{self.pick('0', '-1')}]"
        if choice == 14:
            return f"abs({e('int', d)})"
        if choice == 15:
            return f"int({e(self.pick('float', 'bool', 'int'), d)})"
        if choice == 16:
            return f"{e('dict', d)}.get({e('str', 0)}, {e('int', d)})"
        if choice == 17:
            if self.r.random() < 0.1:
                return f"{e('list', d)}.index({e('int', 0)})"
            return f"{e('list', d)}.count({e('int', 0)})"
        if choice == 18:
            return f"divmod({e('int', d)}, {self.divisor(d)})[{self.pick(0, 1)}]"
        if choice == 19:
            return f"round({e('float', d)})"
        if choice == 20:
            if self.r.random() < 0.1:
                return f"{e('dict', d)}['a']"
            return f"{{**{e('dict', d)}, 'a': {e('int', d)}}}['a']"
        return f"(lambda p, q={self.integer()}: p {self.pick('+', '*', '-')} q)({e('int', d)})"

    def of_float(self, d):
        e = self.expr
        choice = self.r.randint(0, 7)
        if choice <= 2:
            return f"({e('float', d)} {self.pick('+', '-', '*')} {e(self.pick('float', 'int'), d)})"
        if choice == 3:
            return f"({e('int', d)} / {self.divisor(d)})"
        if choice == 4:
            return f"({e('float', d)} {self.pick('//', '%', '/')} {self.divisor(d)})"
        if choice == 5:
            return f"float({e(self.pick('int', 'bool'), d)})"
        if choice == 6:
            return f"{self.pick('min', 'max')}({e('float', d)}, {e('int', d)})"
        return f"round({e('float', d)}, {self.pick(0, 1, 2)})"

    def of_bool(self, d):
        e = self.expr
        choice = self.r.randint(0, 10)
        compare = ["<", "<=", ">", ">=", "==", "!="]
        if choice <= 2:
            return f"({e('int', d)} {self.pick(*compare)} {e(self.pick('int', 'float'), d)})"
        if choice == 3:
            return (f"({e('int', d)} {self.pick(*compare)} {e('int', d)} "
                    f"{self.pick(*compare)} {e('int', d)})")
        if choice == 4:
            return f"({e('bool', d)} {self.pick('and', 'or')} {e('bool', d)})"
        if choice == 5:
            return f"(not {e(self.pick('bool', 'int', 'str', 'list'), d)})"
        if choice == 6:
            return f"({e('int', 0)} {self.pick('in', 'not in')} {e(self.pick('list', 'tuple'), d)})"
        if choice == 7:
            return f"({e('str', d)} {self.pick('in', '==', '<', 'not in')} {e('str', d)})"
        if choice == 8:
            return f"{self.pick('any', 'all')}({e(self.pick('list', 'tuple'), d)})"
        if choice == 9:
            kind = self.pick("list", "tuple")
            return f"({e(kind, d)} {self.pick(*compare)} {e(kind, d)})"
        kind = self.pick("int", "str", "(int, float)", "bool", "(list, tuple)")
        return f"isinstance({e(self.pick('int', 'str', 'list', 'float'), d)}, {kind})"

    def of_str(self, d):
        e = self.expr
        choice = self.r.randint(0, 10)
        if choice <= 1:
            return f"({e('str', d)} + {e('str', d)})"
        if choice == 2:
            return f"({e('str', d)} * {self.pick(-1, 0, 1, 2)})"
        if choice == 3:
            return f"str({e(self.pick('int', 'float', 'bool', 'list', 'tuple', 'dict'), d)})"
        if choice == 4:
            return f"{e('str', d)}.{self.pick('upper', 'lower', 'strip')}()"
        if choice == 5:
            return f"{e('str', d)}.replace('a', {e('str', 0)})"
        if choice == 6:
            return f"','.join([str(i) for i in {e('list', d)}])"
        if choice == 7:
            return f"{e('str', d)}[{self.slice()}]"
        if choice == 8:
            spec = self.pick("", ":d", ":03d", ":x", ":>6", ":<4", "!r", ":5d", ":+d", ":,")
            return f"f'<{{{self.integer()}{spec}}}|{{{self.pick('1 + 2', '7.25', '3')}:.2f}}>'"
        if choice == 9:
            return f"repr({e(self.pick('str', 'list', 'float', 'tuple'), d)})"
        return f"{e('str', d)}.split(',')[0]"

    def slice(self):
        part = lambda: self.pick("", "", "0", "1", "2", "-1", "-2", "5")
        return f"{part()}:{part()}" + self.pick("", "", ":2", ":-1", ":1")

    def sequence(self, d):
        return self.pick(f"range({self.r.randint(0, 6)})", self.expr("list", d),
                         self.expr("tuple", d), f"range({self.r.randint(-3, 3)}, 9, 3)",
                         f"reversed({self.expr('list', d)})")

    def of_list(self, d):
        e = self.expr
        choice = self.r.randint(0, 10)
        if choice <= 2:
            return self.comprehension("[", "]", d)
        if choice == 3:
            return f"({e('list', d)} + {e('list', d)})"
        if choice == 4:
            return f"({e('list', d)} * {self.pick(-1, 0, 1, 2)})"
        if choice == 5:
            return f"{e('list', d)}[{self.slice()}]"
        if choice == 6:
            key = self.pick("", ", reverse=True", ", key=lambda t: -t", ", key=lambda t: t % 3")
            return f"sorted({e('list', d)}{key})"
        if choice == 7:
            return f"[*{e('list', d)}, {e('int', d)}]"
        if choice == 8:
            return f"list({self.sequence(d)})"
        if choice == 9:
            return f"list(map(lambda t: t {self.pick('+', '*', '-')} 2, {e('list', d)}))"
        return f"[a * b for a, b in zip({e('list', d)}, {e('tuple', d)})]"

    def comprehension(self, left, right, d):
        name = self.name()
        source = self.sequence(d)
        saved = dict(self.names)
        self.names[name] = "int"
        item = self.expr("int", d)
        test = f" if {self.expr('bool', d)}" if self.r.random() < 0.5 else ""
        self.names = saved
        return f"{left}{item} for {name} in {source}{test}{right}"

    def of_tuple(self, d):
        choice = self.r.randint(0, 3)
        if choice == 0:
            return f"({self.expr('tuple', d)} + ({self.expr('int', d)},))"
        if choice == 1:
            return f"tuple({self.sequence(d)})"
        if choice == 2:
            return f"({self.expr('int', d)}, {self.expr('int', d)})"
        return f"{self.expr('tuple', d)}[{self.slice()}]"

    def of_dict(self, d):
        choice = self.r.randint(0, 3)
        if choice == 0:
            return f"{{k: n for k, n in zip('abcd', {self.expr('list', d)})}}"
        if choice == 1:
            return f"dict(a={self.expr('int', d)}, c={self.expr('int', d)})"
        if choice == 2:
            return f"{{'a': {self.expr('int', d)}, {self.expr('str', 0)}: {self.expr('int', d)}}}"
        return f"{{**{self.expr('dict', d)}, 'b': {self.expr('int', d)}}}"

    def block(self, indent, depth, loops=0):
        """Statements; assigned names stay known only where every path assigns them."""
        lines = []
        pad = "    " * indent
        for _ in range(self.r.randint(1, 3)):
            choice = self.r.randint(0, 12)
            if choice <= 3 or depth <= 0:
                kind = self.pick("int", "int", "float", "str", "list", "tuple", "dict", "bool")
                value = self.expr(kind, 2)
                name = self.name()
                lines.append(f"{pad}{name} = {value}")
                self.names[name] = kind
            elif choice == 4 and self.known("int"):
                name = self.r.choice(self.known("int"))
                lines.append(f"{pad}{name} {self.pick('+=', '-=', '*=')} {self.expr('int', 1)}")
            elif choice == 5 and self.known("list"):
                name = self.r.choice(self.known("list"))
                value = self.expr("int", 1)
                lines.append(pad + self.pick(f"{name}.append({value})", f"{name}.extend([{value}, 1])",
                                             f"{name}.insert(0, {value})", f"{name} += [{value}]",
                                             f"{name}.append(2); {name}.pop()",
                                             f"{name}.append(2); {name}[0] = {value}"))
            elif choice == 6 and self.known("dict"):
                name = self.r.choice(self.known("dict"))
                lines.append(f"{pad}{name}[{self.expr('str', 0)}] = {self.expr('int', 1)}")
            elif choice == 7:
                a, b = self.name(), self.name()
                lines.append(f"{pad}{a}, {b} = {self.expr('int', 1)}, {self.expr('int', 1)}")
                self.names.update({a: "int", b: "int"})
            elif choice <= 9:
                lines.append(f"{pad}if {self.expr('bool', 2)}:")
                saved = dict(self.names)
                lines += self.block(indent + 1, depth - 1, loops)
                self.names = dict(saved)
                if self.r.random() < 0.6:
                    lines.append(f"{pad}else:")
                    lines += self.block(indent + 1, depth - 1, loops)
                    self.names = dict(saved)
            elif loops < 2:
                saved = dict(self.names)
                name = self.name()
                if self.r.random() < 0.8:
                    # Of a copy: a body that appends to its own list never ends.
                    lines.append(f"{pad}for {name} in list({self.sequence(1)}):")
                    self.names[name] = "int"
                    lines += self.block(indent + 1, depth - 1, loops + 1)
                    if self.r.random() < 0.3:
                        lines.append(f"{pad}    if {self.expr('bool', 1)}:")
                        lines.append(f"{pad}        {self.pick('break', 'continue')}")
                else:
                    lines.append(f"{pad}{name} = {self.r.randint(0, 5)}")
                    lines.append(f"{pad}while {name} > 0:")
                    lines.append(f"{pad}    {name} -= 1")
                    self.names[name] = "str"  # out of reach of what follows, so that the loop ends
                    lines += self.block(indent + 1, depth - 1, loops + 1)
                self.names = saved
            else:
                lines.append(f"{pad}pass")
        return lines

    def function(self, name, arguments):
        self.names = {f"p{i}": kind for i, kind in enumerate(arguments)}
        header = ", ".join(self.names)
        result = self.pick("int", "int", "float", "str", "list", "tuple", "bool", "dict")
        lines = [f"def {name}({header}):"] + self.block(1, 2)
        lines.append(f"    return {self.expr(result, 2)}")
        return lines, result

    def program(self):
        lines = []
        for i in range(self.r.randint(0, 2)):
            arguments = [self.pick("int", "int", "list", "str") for _ in range(self.r.randint(0, 2))]
            body, result = self.function(f"h{i}", arguments)
            lines += body
            self.helpers.append((f"h{i}", arguments, result))
        self.names = {}
        lines += ["def f():"] + self.block(1, 2)
        kinds = [self.pick("int", "float", "str", "list", "tuple", "bool", "dict") for _ in range(2)]
        lines.append(f"    return ({self.expr(kinds[0], 3)}, {self.expr(kinds[1], 3)}"
                     + "".join(f", {n}" for n in self.names) + ")")
        return "\n".join(lines) + "\n"


class Watch(ast.NodeTransformer):
    """Passes every value through `seen_`, which looks for integers beyond 64 bits."""

    def visit(self, node):
        node = self.generic_visit(node)
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call)):
            call = ast.Call(ast.Name("seen_", ast.Load()), [node], [])
            return ast.copy_location(call, node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            look = ast.Expr(ast.Call(ast.Name("seen_", ast.Load()), [value], []))
            return [ast.fix_missing_locations(ast.copy_location(look, node)), node]
        return node


def in_cpython(text):
    """(repr of f() or None when it raises, whether an integer beyond 64 bits was met)."""
    big = []

    def seen(value):
        if isinstance(value, int) and not -LARGEST <= value < LARGEST:
            big.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                seen(item)
        return value

    def run(tree_or_text, scope):
        try:
            exec(compile(tree_or_text, "<program>", "exec"), scope)  # text that we wrote ourselves
            return repr(scope["f"]())
        except Exception:
            return None

    result = run(text, {})
    watched = ast.fix_missing_locations(Watch().visit(ast.parse(text)))
    run(watched, {"seen_": seen})
    return result, bool(big)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("evaluate")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="folder for the programs that disagree")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of programs that cannot be right
    texts = [Generator(options.seed * 1_000_003 + i).program() for i in range(options.count)]
    answers = subprocess.run([options.evaluate], input=SEPARATOR.join(texts), text=True,
                             stdout=subprocess.PIPE, check=True).stdout.split(SEPARATOR)
    if len(answers) != len(texts):
        sys.exit(f"{len(answers)} answers to {len(texts)} programs")
    equal = raised = big = 0
    wrong = []
    for text, answer in zip(texts, answers):
        want, met_big = in_cpython(text)
        value = answer[len("value "):] if answer.startswith("value ") else None
        agrees = value == (want and want[:MOST_SHOWN])
        equal += agrees and want is not None
        raised += agrees and want is None
        if met_big and (agrees or value is None):
            big += not agrees
        elif not agrees:
            wrong.append((text, want, answer))
    for text, want, answer in wrong[:5]:
        print(f"{text}CPython: {want if want is not None else 'raises'}\nKiln: {answer}\n")
    if options.keep:
        for i, (text, want, answer) in enumerate(wrong):
            kept = f"{text}# CPython: {want}\n# Kiln: {answer!r}\n"
            pathlib.Path(options.keep, f"{i}.py").write_text(kept, encoding="utf-8")
    print(f"programs {len(texts)} equal {equal} both_raise {raised} beyond_64_bits {big} "
          f"disagree {len(wrong)}")
    return 1 if wrong or big > MOST_BIG * len(texts) or equal < len(texts) / 2 else 0


if __name__ == "__main__":
    sys.exit(main())

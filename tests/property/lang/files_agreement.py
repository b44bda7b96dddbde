"""Random programs of several files that change each other's containers, read by CPython and by the elaborator.

    files_agreement.py EVALUATE [--count N] [--seed S]

EVALUATE is the tool of evaluate.cc. What the kernel file's f() gives is equal to CPython's, or it is refused;
of programs that run, at most MOST_REFUSED are. Exit code 1 otherwise.
"""
import pathlib
import sys
import tempfile

import agreement

MARK = "# kiln: from here on the text of "
MOST_REFUSED = 0.25
HELPERS = """\
class C:
    shared = []
    def __init__(self, t):
        self.t = t
    def bump(self, by=1):
        self.t.append(by)
        return self
def add(x, v=3):
    y = x
    y.append(v)
    return x
def same(x):
    return x
def each(x, *more):
    for m in more:
        m.append(len(x))
def push(v):
    X.append(v)
def get():
    return Y
def seen():
    return [len(X), sum(Y), N0, C.shared]
X = [1]
Y = [2, 3]
D = {'a': [4], 'b': X}
O = C(Y)
P = [X, Y]
N0 = 1
"""
NAMES = ["C", "add", "same", "each", "push", "get", "seen", "X", "Y", "D", "O", "P", "N0"]
WITHIN = ["X.append({i})", "Y = X", "P.append([{i}])", "N0 = len(X)", "add(Y)", "Z = X\nZ.append({i})", "O.bump({i})"]
STATEMENTS = [
    "a = {v}\na.append({i})", "{v}.append({i})", "{v}[0] = {i}", "{add}({v})", "{add}(v={i}, x={v})",
    "n = len({add}({v}))", "{same}({v}).append({i})", "{each}({v}, {w})", "{O}.bump({i})", "{O}.t.append({i})",
    "o = {C}({v})\no.bump({i})", "{P}[0].append({i})", "{P}.append({v})", "for p in {P}:\n    p.append({i})",
    "for k, p in {D}.items():\n    p.append({i})", "{D}['a'] = {v}", "{D}['b'].append({i})", "{C}.shared.append({i})",
    "g = {add}\ng({v})", "n = sum({v})", "n = len({v}) + {N0}", "m = {seen}()", "{push}({i})", "g = {get}()\ng.append({i})",
    "{get}().append({i})", "q = [{v}] * 2\nq[0].append({i})", "own = {v} + [{i}]\nown.append({i})", "if len({v}) > {i}:\n    {w}.append({i})",
    "def change(x):\n    x.append({i})\nchange({v})", "def inside():\n    from helpers import X\n    X.append({i})\ninside()",
    "class K({C}):\n    pass\nk = K({v})\nk.bump({i})", "t = {v}.append\nt({i})", "[{v}.append(e) for e in range(2)]",
]
BY_MODULE = ["{m}.N0 = {i}", "{m}.X = [{i}]", "setattr({m}, 'N0', {i})"]


def access(rng):
    """Import statements, how each name is written behind them, and the module's own name, if any."""
    form = rng.randrange(6)
    if form == 0:
        alias = {n: n + "_" * rng.randrange(2) for n in NAMES}
        return "from helpers import " + ", ".join(f"{n} as {a}" for n, a in alias.items()), alias, None
    if form == 1:
        return "import helpers", {n: f"helpers.{n}" for n in NAMES}, "helpers"
    if form == 2:
        return "import helpers as H", {n: f"H.{n}" for n in NAMES}, "H"
    if form == 3:
        return f"from {rng.choice(['helpers', 'middle'])} import *", {n: n for n in NAMES}, None
    if form == 4:
        return "import middle\nfrom helpers import X", {n: n if n == "X" else f"middle.{n}" for n in NAMES}, "middle"
    return "from middle import helpers as h", {n: f"h.{n}" for n in NAMES}, "h"


def program(rng):
    """{file: text}, the kernel file's first."""
    imports, names, module = access(rng)
    lines = [imports]
    statements = STATEMENTS + (BY_MODULE if module else [])
    for _ in range(rng.randrange(1, 5)):
        lines.append(rng.choice(statements).format(
            v=rng.choice([names["X"], names["Y"]]), w=rng.choice([names["X"], names["Y"]]),
            i=rng.randrange(1, 6), m=module, **{n: a for n, a in names.items() if n not in "XY"}))
    read = [names["X"], names["Y"], names["D"], names["P"], names["O"] + ".t", names["N0"],
            names["C"] + ".shared", names["get"] + "()", names["seen"] + "()"]
    read = rng.sample(read, rng.randrange(1, len(read) + 1))
    kernel = "\n".join(lines) + f"\ndef f():\n    return [{', '.join(read)}]\n"
    within = "\n".join(s.format(i=rng.randrange(1, 6)) for s in rng.choices(WITHIN, k=rng.randrange(3)))
    middle = "import helpers\nfrom helpers import *\n"
    if rng.randrange(4) == 0:
        middle += rng.choice(["X.append(8)\n", "W = Y\nW.append(9)\n", "push(7)\n"])
    files = {"kernel.py": kernel, "helpers.py": HELPERS + within + "\n"}
    if "middle" in imports:
        files["middle.py"] = middle
    return files


def expected(files, folder):
    for name, text in files.items():
        (folder / name).write_text(text)
    for name in ("helpers", "middle"):
        sys.modules.pop(name, None)
    env = {}
    try:
        exec(compile(files["kernel.py"], "kernel", "exec"), env)
        return "value " + repr(env["f"]())
    except Exception:
        return None


def draw(rng, folder):
    files = program(rng)
    value = expected(files, folder)
    text = "\n".join((MARK + name + "\n" if name != "kernel.py" else "") + text for name, text in files.items())
    shown = "\n".join([files["kernel.py"], files["helpers.py"][len(HELPERS):], files.get("middle.py", "")])
    return None if value is None else (text, value, shown)


sys.dont_write_bytecode = True
with tempfile.TemporaryDirectory() as root:
    sys.path.insert(0, root)
    agreement.main(__doc__, 600, MOST_REFUSED, lambda rng: draw(rng, pathlib.Path(root)))

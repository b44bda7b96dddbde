"""Random files whose statements change containers by other names, read by CPython and by the elaborator.

    globals_agreement.py EVALUATE [--count N] [--seed S]

EVALUATE is the tool of evaluate.cc. The globals are equal to CPython's, or reading them is refused;
of files that run, at most MOST_REFUSED are. Exit code 1 otherwise.
"""
import agreement

MOST_REFUSED = 0.1
PRELUDE = """\
class C:
    shared = []
    def __init__(self, t):
        self.t = t
        self.n = 1
    def bump(self, by=1):
        self.n += by
        t = self.t
        t.append(by)
        return self
def add(x, v=3):
    y = x
    y.append(v)
    return x
def same(x):
    return x
def each(x, *more, **kw):
    for m in more:
        m.append(len(x))
    for m in kw.values():
        m.append(7)
def total(x):
    return sum(x) + len(X)
X = [1]
Y = [2, 3]
D = {'a': [4], 'b': X}
O = C(Y)
P = [X, Y]
N0 = 1
"""
STATEMENTS = [
    "{v} = {w}", "{v} = {w} + [{i}]", "{v} = [v for v in {w}]", "{v} = {w}[:1] + [{i}]", "{v}.append({i})",
    "{v} += [{i}]", "{v}[0] = {i}", "add({v})", "add(v={i}, x={v})", "{n} = len(add({v}))", "same({v}).append({i})",
    "{v} = same({w})", "each({v}, {w})", "each({v}, a={w})", "O.bump({i})", "O.t.append({i})", "O = C({v})",
    "P[0].append({i})", "P.append({v})", "for p in P:\n    p.append({i})", "for k, p in D.items():\n    p.append({i})",
    "D['a'] = {v}", "D['b'].append({i})", "C.shared.append({i})", "g = add\ng({v})", "a = {v}.append\na({i})",
    "h = lambda v: {v}.append(v)\nh({i})", "assert {v}.append({i}) is None", "{n} = sum({v})", "{n} = total({v})",
    "{n} = len({v}) + {i}", "{n} = O.n + len(O.t)", "if len({v}) > {i}:\n    {w}.append({i})", "Q = [{v}] * 2\nQ[0].append({i})",
    "list(map({v}.append, [{i}]))", "{n} = f'{{{v}}}'", "if (z := {v}):\n    z.append({i})", "def late(n=len({v})):\n    return n\nN0 = late()",
    "class K:\n    n = len({v})\nN1 = K.n", "[{v}.append(q) for q in range(2)]", "{v}, {w} = {w}, {v}", "O.bump().bump({i})",
]


def program(rng):
    lines = [PRELUDE]
    for _ in range(rng.randrange(3, 12)):
        lines.append(rng.choice(STATEMENTS).format(
            v=rng.choice("XY"), w=rng.choice("XY"), i=rng.randrange(1, 6), n=rng.choice(["N0", "N1"])))
    names = ["X", "Y", "D", "P", "O.n", "O.t", "N0", "C.shared"]
    rng.shuffle(names)
    return "\n".join(lines) + f"\ndef f():\n    return [{', '.join(names)}]\n"


def draw(rng):
    text, env = program(rng), {}
    try:
        exec(compile(text, "file", "exec"), env)
        return text, "value " + repr(env["f"]()), text[len(PRELUDE):]
    except Exception:
        return None


agreement.main(__doc__, 1000, MOST_REFUSED, draw)

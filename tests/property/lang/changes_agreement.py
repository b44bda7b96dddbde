"""Random programs that change what they go over, against CPython: the same value, or refused.

    changes_agreement.py EVALUATE [--count N] [--seed S]

Loops whose bodies change the list, dict or object that they iterate, iterators that are taken later
or twice, generators, slices that are assigned and deleted, names for one list, class bodies, results
that are kept, and errors that are caught.
"""
import resource
import signal

import agreement

MOST_REFUSED = 0.55
LONGEST_RUN = 0.3  # seconds of a program in CPython, which may go on for ever
MOST_MEMORY = 1 << 30

PRELUDE = """\
import functools
import itertools

G = [5, 6]

@functools.lru_cache(maxsize=2)
def cached(x):
    return [x, len(G)]

def each(xs):
    for x in xs:
        yield x

def totals(xs, box):
    total = 0
    for x in xs:
        total += x
        yield total + box.k
    yield len(xs)

class Box:
    k = 1
    sizes = [k, k + 1]
    k = sizes[1] + 1
    double = [s * 2 for s in sizes]

    def __init__(self, items):
        self.items = items
        self.seen = []

    def each(self):
        for x in self.items:
            yield x * self.k

    def note(self, x):
        self.seen.append(x)
        return x

    @functools.cached_property
    def kept(self):
        return [self.k, len(self.items)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return self.items[at]
"""


class Program:
    def __init__(self, rng):
        self.r = rng
        self.fresh = 0

    def pick(self, *choices):
        return self.r.choice(choices)

    def name(self):
        self.fresh += 1
        return f"v{self.fresh}"

    def number(self):
        return str(self.r.randint(-2, 4))

    def list(self):
        return self.pick("L", "L", "M", "b.items", "N[0]", "G", "d['k']", "Box.sizes")

    def plain(self):
        """A sequence of numbers that is no iterator."""
        return self.pick(self.list(), f"{self.list()}[{self.slice()}]", "(1, 2)", "range(3)", "[7]",
                         f"list({self.list()})", f"[*{self.list()}, n]")

    def lazy(self):
        xs, ys = self.plain(), self.plain()
        return self.pick(
            f"(x + 1 for x in {xs})", f"(x for x in {xs} if x != n)", f"each({xs})", f"totals({xs}, b)",
            "b.each()", f"map(b.note, {xs})", f"map(lambda x: x + n, {xs})", f"map(plus, {xs})",
            f"filter(lambda x: x in {self.list()}, {xs})", f"(x + y for x, y in zip({xs}, {ys}))",
            f"reversed({self.list()})", f"(i * x for i, x in enumerate({xs}))", "e.values()",
            "(e[k] for k in e)", f"(len({self.list()}) for x in {xs})", "e.keys()", "iter_",
            f"itertools.chain({xs}, {ys})")

    def iterable(self):
        return self.pick(self.plain(), self.lazy(), self.lazy(), "e", "b.items")

    def slice(self):
        part = lambda: self.pick("", "", "0", "1", "-1", "2")
        return f"{part()}:{part()}" + self.pick("", "", "", ":2", ":-1")

    def value(self):
        return self.pick(
            self.number(), "n", f"len({self.list()})", f"sum({self.iterable()})", f"sum({self.plain()})",
            f"({self.number()} in {self.iterable()})", f"{self.list()}[{self.pick('0', '-1', 'n')}]",
            "b.k", "Box.double[0]", "plus(n)", f"max([0, *{self.plain()}])", "len(b)", "e.get(1, 9)",
            f"any(x > 1 for x in {self.plain()})", f"(1 if {self.iterable()} else 2)",
            f"[*{self.iterable()}]", f"list({self.lazy()})", f"sum(b.note(x) for x in {self.plain()})")

    def change(self):
        xs, v = self.list(), self.value()
        return self.pick(
            f"{xs}.append({v}) if len({xs}) < 7 else None", f"{xs}[{self.pick('0', '-1')}] = {v}",
            f"{xs}.pop() if {xs} else None", f"{xs}.remove({xs}[0]) if {xs} else None",
            f"{xs} += [{v}]" if xs != "G" else "G.append(2)", f"{xs}.insert(0, {v})", f"{xs}.reverse()",
            f"{xs}[{self.slice()}] = {self.pick(self.plain(), self.lazy())}", f"del {xs}[{self.slice()}]",
            f"{xs}.extend({self.pick(self.plain(), self.lazy())})", "n += 1", f"n = {self.number()}",
            f"e[{self.number()}] = {v}", "e.pop(1, None)", "for k in e: e[k] = n", "b.k = n", "Box.k += 1",
            f"b.items = {self.plain()}", "M = L", "M = L[:]", "N[0] = L", f"{xs} *= {self.pick(0, 1, 2)}"
            if xs not in ("G",) else "G.clear()", f"b.items[0] += {self.number()}", f"del e[{self.number()}]",
            f"iter_ = {self.lazy()}", "e |= {3: n}", "x = y = M", "d['k'] = M",
            f"e.update({{b.note({v}): b.note(n) for n in {self.list()}[:2]}})",
            f"class K: out.append({v}); m = 7", f"cached({self.number()}).append({v})",
            f"(lambda q={v}: out.append(q))()", "out.append(cached(n)[:3])", "b.kept.append(n)",
            f"{self.list()}.sort(key=lambda x: b.note(-1) if x in (0, 1) else 0)")

    def block(self, pad, depth):
        lines = []
        for _ in range(self.r.randint(1, 3)):
            kind = self.r.randint(0, 9)
            if kind <= 3 or depth == 0:
                lines.append(pad + self.change())
            elif kind <= 4:
                lines.append(f"{pad}out.append({self.value()})")
            elif kind <= 7:
                name = self.name()
                lines.append(f"{pad}for {name} in {self.iterable()}:")
                lines += self.block(pad + "    ", depth - 1)
                lines.append(f"{pad}    out.append({name})")
                if self.r.random() < 0.2:
                    lines.append(f"{pad}    if {name} == n: {self.pick('break', 'continue')}")
            elif kind == 8:
                lines.append(f"{pad}try:")
                lines += self.block(pad + "    ", depth - 1)
                error = self.pick("IndexError", "(KeyError, ValueError)", "LookupError", "Exception")
                lines.append(f"{pad}except {error}:")
                lines.append(f"{pad}    out.append({self.pick('0', 'n')})")
                if self.r.random() < 0.3:
                    lines.append(f"{pad}finally:")
                    lines += self.block(pad + "    ", 0)
            else:
                lines.append(f"{pad}if {self.value()}:")
                lines += self.block(pad + "    ", depth - 1)
        return lines

    def text(self):
        lines = [*PRELUDE.splitlines(), "def f():",
                 "    L, M, n, out = [1, 2, 3], [0, 4], 1, []",
                 "    b, e, N, d = Box([2, 3]), {1: 2, 2: 0}, [[1], 2], {'k': [8, 1]}",
                 "    iter_ = zip((1, 2))", "    def plus(x):", "        return x + n",
                 *self.block("    ", 2),
                 "    return (out, L, M, N, b.items, b.seen, b.k, Box.k, e, d, n, G, b.kept)"]
        return "\n".join(lines) + "\n"


def in_cpython(text):
    """repr(f()), or None where it raises or does not end."""
    def late(*_):
        raise KeyboardInterrupt  # which no handler of the program catches

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_RUN)
    try:
        scope = {}
        exec(compile(text, "<program>", "exec"), scope)  # text that we wrote ourselves
        return repr(scope["f"]())
    except (Exception, KeyboardInterrupt):
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def draw(rng):
    text = Program(rng).text()
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = MOST_MEMORY if before[1] == resource.RLIM_INFINITY else min(MOST_MEMORY, before[1])
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        value = in_cpython(text)
    except KeyboardInterrupt:  # on the way out
        value = None
    finally:  # here, where no alarm comes any more
        resource.setrlimit(resource.RLIMIT_AS, before)
    return None if value is None else (text, "value " + value, text)


if __name__ == "__main__":
    agreement.main(__doc__, count=1000, most_refused=MOST_REFUSED, draw=draw)

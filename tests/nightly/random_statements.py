"""Statements of random kernels around loops over elements: copies, reductions, scans, control flow.

A method of Statements appends its lines to `lines` and returns the step that does the same to the
memory of the NumPy oracle, or None where it found nothing to do and wrote nothing."""
from random_expressions import MODULUS, SMALL, STORAGE, WIDE, Tile, as_held, np, zeros
from random_loops import Loops

BREAK, CONTINUE = "break", "continue"


class Leave(Exception):
    """A break or continue on its way to its loop."""


def copies_exactly(source, target):
    """Whether every value that a tile of the one type may hold converts without overflow."""
    if target in WIDE or source == target:
        return True
    narrow = source in SMALL or source in STORAGE or source == "uint8"
    return narrow and target != "uint8"


def run(steps, memory):
    for step in steps:
        step(memory)


class Statements(Loops):
    def __init__(self, seed):
        super().__init__(seed)
        self.pipelined = False  # inside of one
        self.leaves = False  # a break or continue may stand here
        self.in_part = False  # under T.ws

    def block(self, count, where, depth):
        """Up to `count` statements, as one step."""
        before = len(self.lines)
        steps = [s for _ in range(count) if (s := self.statement(where, depth))]
        if len(self.lines) == before:
            self.emit("T.sync_threads()")
        return lambda m: run(steps, m)

    def statement(self, where, depth):
        kinds = [(self.parallel, 30), (self.copy_in, 8), (self.copy_tile, 7), (self.copy_region, 9),
                 (self.copy_ragged, 5), (self.fill_region, 4), (self.reduce, 12), (self.scan, 5),
                 (self.element, 4), (self.view, 6), (self.atomic_tile, 3)]
        if not self.in_part:
            kinds.append((self.assign, 6))
        if depth < 3:
            kinds.append((self.branch, 8))
        if depth < 2:
            kinds += [(self.loop, 20), (self.while_loop, 4)]
            if not self.in_part and not self.pipelined and self.threads >= 256:
                kinds.append((self.parts, 20))
        if self.leaves:
            kinds.append((self.leave, 15))
        makers, weights = zip(*kinds)
        return self.rng.choices(makers, weights)[0](where, depth)

    # ---- variables and elements ----

    def assign(self, where, _depth):
        name, value = self.pick(self.variables), self.expr(where, 2)
        adds = self.chance(0.5)
        self.emit(f"{name} {'+=' if adds else '='} ({value.text}) % {MODULUS}")

        def step(m):
            m[name] = (m[name] if adds else 0) + int(value.of(m)) % MODULUS
        return step

    def element(self, where, _depth):
        """One element that the block stores once."""
        tile = self.matching(lambda t: t.memory != "fragment")
        if not tile:
            return None
        value = self.stored_value(where, 1, tile.dtype)
        index = [self.expr(where, 1) if self.chance(0.5) else self.atom(where) for _ in tile.shape]
        self.emit(tile.at(*(f"({i.text}) % {n}" for i, n in zip(index, tile.shape)))
                  + f" = {value.text}")

        def step(m):
            new = value.of(m)
            m[tile.name][tuple(int(i.of(m)) % n for i, n in zip(index, tile.shape))] = new
        return step

    # ---- copies ----

    def copy_in(self, where, _depth):
        """A tile out of A or B, zero where it leaves the tensor."""
        tile = self.matching(lambda t: t.axes == "ij" and t.memory != "global")
        name = self.pick("AB")
        dtype, shape = self.tensors[name]
        if not tile or not (copies_exactly(dtype, tile.dtype) or tile.dtype != "uint8"):
            return None
        starts = []
        for block, extent, size in zip(("bx", "by"), tile.shape, shape):
            choices = ["0", f"{block} * {extent}"] + ["1"] * (size > 1)
            choices += [f"{n} * {extent} - 1" for n in where.names if n[0] == "k"]
            choices += [f"{n} * {self.pick([1, extent])}" for n in where.names if n[0] == "k"]
            starts.append(self.pick(choices))
        self.emit(f"T.copy({name}[{', '.join(starts)}], {tile.name})")

        def step(m):
            ints = {n: int(m[n]) for n in where.names}
            y, x = (eval(s, {}, ints) for s in starts)  # noqa: S307 - what stands above
            below, right = max(0, -y), max(0, -x)  # what lies before the tensor
            held = m[name][y + below:max(0, y + tile.shape[0]), x + right:max(0, x + tile.shape[1])]
            m[tile.name][...] = 0
            m[tile.name][below:below + held.shape[0], right:right + held.shape[1]] = as_held(
                held, tile.dtype)
        return step

    def copy_ragged(self, _where, _depth):
        """Between a tile and a tensor whose end it crosses: zeros come in, nothing goes out."""
        inside = self.matching(lambda t: t.memory == "global")
        if not inside:
            return None
        out = self.chance(0.5)
        tile = self.matching(lambda t: t.memory != "global" and t.axes == inside.axes and
                             copies_exactly(*((t.dtype, inside.dtype) if out else
                                              (inside.dtype, t.dtype))))
        if not tile:
            return None
        start = [self.rng.randrange(n) for n in inside.shape]
        operands = tile.name, inside.at(*map(str, start))
        self.emit("T.copy({}, {})".format(*(operands if out else operands[::-1])))
        there = tuple(slice(s, n) for s, n in zip(start, inside.shape))
        here = tuple(slice(0, n - s) for s, n in zip(start, inside.shape))

        def step(m):
            if out:
                m[inside.name][there] = as_held(m[tile.name][here], inside.dtype)
            else:
                m[tile.name][...] = 0
                m[tile.name][here] = as_held(m[inside.name][there], tile.dtype)
        return step

    def copy_tile(self, _where, _depth):
        source = self.pick(self.tiles)
        target = self.matching(lambda t: t != source and t.axes == source.axes
                               and copies_exactly(source.dtype, t.dtype))
        if not target:
            return None
        self.emit(f"T.copy({source.whole()}, {target.whole()})")

        def step(m):
            m[target.name][...] = as_held(m[source.name], target.dtype)
        return step

    def starts(self, tile, extents):
        return [self.rng.randint(0, n - e) for n, e in zip(tile.shape, extents)]

    def copy_region(self, _where, _depth):
        """Between tiles or within one, where the regions may overlap: all is read first."""
        regions = [t for t in self.tiles if t.memory != "fragment" or self.chance(0.02)]
        if not regions:
            return None
        source = self.pick(regions)
        others = [t for t in regions if t.axes == source.axes
                  and copies_exactly(source.dtype, t.dtype)]
        target = source if self.chance(0.5) else self.pick(others)
        extents = [self.rng.randint(1, n) for n in source.shape]
        a, b = self.starts(source, extents), self.starts(target, extents)
        self.emit(f"T.copy({source.region(a, extents)}, {target.region(b, extents)})")
        read, written = (tuple(slice(s, s + n) for s, n in zip(at, extents)) for at in (a, b))

        def step(m):
            m[target.name][written] = as_held(m[source.name][read].copy(), target.dtype)
        return step

    def fill_region(self, _where, _depth):
        tile, value = self.pick(self.tiles), self.rng.randint(0, 8)
        extents = [self.rng.randint(1, n) for n in tile.shape]
        start = self.starts(tile, extents)
        self.emit(f"T.fill({tile.region(start, extents)}, {value})")

        def step(m):
            m[tile.name][tuple(slice(s, s + n) for s, n in zip(start, extents))] = value
        return step

    # ---- along a dimension ----

    def reduce(self, _where, _depth):
        source = self.matching(lambda t: t.axes == "ij" and t.memory != "global"
                               and t.dtype not in STORAGE and t.dtype != "uint8")
        if not source:
            return None
        target = self.matching(lambda t: t.axes != "ij" and t.memory != "global"
                               and t.dtype == source.dtype)
        if not target:
            return None
        dim = 1 if target.axes == "i" else 0
        ops = {"max": (np.max, np.maximum), "min": (np.min, np.minimum),
               "absmax": (lambda x, axis: np.max(np.abs(x), axis), np.maximum)}
        if source.dtype in WIDE:
            ops["sum"] = (np.sum, np.add)
        op = self.pick(sorted(ops))
        over, join = ops[op]
        clears = op == "sum" or self.chance(0.6)
        self.emit(f"T.reduce_{op}({source.name}, {target.name}, dim={dim}"
                  + ("" if clears else ", clear=False") + ")")

        def step(m):
            new = over(m[source.name], axis=dim)
            m[target.name][...] = new if clears else join(new, m[target.name])
        return step

    def scan(self, _where, _depth):
        """In place; sums of what was made small before."""
        tile = self.matching(lambda t: t.dtype in WIDE and t.memory != "global")
        if not tile:
            return None
        dim, back = self.rng.randrange(len(tile.shape)), self.chance(0.5)
        sums = self.chance(0.5)
        small = self.make_small(tile) if sums else None
        self.emit(f"T.{'cumsum' if sums else 'cummax'}({tile.name}, dim={dim}, reverse={back})")
        scan = np.cumsum if sums else np.maximum.accumulate

        def step(m):
            if small:
                small(m)
            held = m[tile.name]
            turned = np.flip(held, dim) if back else held
            done = scan(turned, axis=dim)
            held[...] = np.flip(done, dim) if back else done
        return step

    # ---- control flow ----

    def branch(self, where, depth):
        test = self.condition(where)
        with self.indented(f"if {test.text}:"):
            yes = self.block(self.rng.randint(1, 3), where, depth + 1)
        no = None
        if self.chance(0.4):
            with self.indented("else:"):
                no = self.block(self.rng.randint(1, 2), where, depth + 1)

        def step(m):
            if test.of(m):
                yes(m)
            elif no:
                no(m)
        return step

    def leave(self, where, _depth):
        test, word = self.condition(where, 0), self.pick([BREAK, CONTINUE])
        with self.indented(f"if {test.text}:"):
            self.emit(word)

        def step(m):
            if test.of(m):
                raise Leave(word)
        return step

    def loop(self, where, depth):
        name, count = self.new_name("k"), self.rng.randint(1, 4)
        pipelined, leaves = False, False
        turns = lambda m: range(count)  # noqa: E731
        kind = self.rng.random()
        if kind < 0.5 and not self.pipelined:
            head, pipelined = f"T.Pipelined({count}, num_stages={self.rng.randint(0, 4)})", True
        elif kind < 0.6:
            first, by = self.rng.randint(0, 3), self.pick([1, 2])
            head = f"T.serial({first}, {first + count * by}, {by})"
            turns = lambda m: range(first, first + count * by, by)  # noqa: E731
        elif kind < 0.7:
            head = f"T.unroll({count})"
        elif kind < 0.8:
            at = self.rng.randrange(self.tensors["V"][1][0])
            head = f"T.serial(V[{at}] % {count + 1})"
            turns = lambda m: range(int(m["V"][at]) % (count + 1))  # noqa: E731
        else:
            head, leaves = f"T.serial({count})", not self.in_part
        with self.indented(f"for {name} in {head}:", leaves=leaves,
                           pipelined=pipelined or self.pipelined):
            body = self.block(self.rng.randint(1, 4), where.plus(name), depth + 1)
        return self.turning(name, turns, body)

    @staticmethod
    def turning(name, turns, body):
        def step(m):
            for turn in turns(m):
                m[name] = turn
                try:
                    body(m)
                except Leave as left:
                    if left.args[0] == BREAK:
                        break
            m.pop(name, None)
        return step

    def while_loop(self, where, depth):
        """Counts a variable of its own down, before its body so that `continue` goes on."""
        name, start, last = self.new_name("n"), self.expr(where, 1), self.pick([0, 1])
        self.emit(f'{name} = T.alloc_var("int32", ({start.text}) % 5)')
        with self.indented(f"while {name} > {last}:", leaves=not self.in_part, pipelined=True):
            self.emit(f"{name} = {name} - 1")
            body = self.block(self.rng.randint(1, 3), where.plus(name), depth + 1)

        def step(m):
            m[name] = int(start.of(m)) % 5
            while m[name] > last:
                m[name] -= 1
                try:
                    body(m)
                except Leave as left:
                    if left.args[0] == BREAK:
                        break
            m.pop(name)
        return step

    # ---- warpgroups ----

    def parts(self, where, depth):
        """Two warpgroups that write different tiles, each with a fragment of its own."""
        shared = [t for t in self.tiles if t.memory == "shared" and t.axes == "ij"]
        if len(shared) < 2:
            return None
        targets = self.rng.sample(shared, 2)
        steps = []
        for group, target in enumerate(targets):
            others = [t for t in self.tiles if t.memory == "shared" and t not in targets]
            with self.indented(f"with T.ws({group}):", in_part=True, leaves=False):
                own = Tile(self.new_name("p"), "ij", target.shape, target.dtype, "fragment")
                self.emit(f'{own.name} = T.alloc_fragment({own.shape}, "{own.dtype}")')
                self.emit(f"T.clear({own.name})")
                with self.only([*others, target], []):
                    first = self.parallel(where, depth, [own])
                    self.tiles = [own, target, *others]
                    body = self.block(self.rng.randint(1, 3), where, depth + 1)
                self.emit(f"T.copy({own.name}, {target.name})")
            steps += [lambda m, t=own: m.update({t.name: zeros(t)}), first, body,
                      lambda m, a=own, b=target: np.copyto(m[b.name], m[a.name], casting="unsafe")]
        return lambda m: run(steps, m)
